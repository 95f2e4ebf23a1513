"""The handwritten digits of scikit-learn."""

import importlib.util
from pathlib import Path

import numpy as np

from trainables.data.core.base import Dataset, Targets
from trainables.data.core.options import CommonOptions, with_options
from trainables.data.core.splits import About, Part, build_dataset
from trainables.data.kinds.arrays import Images


@with_options(validation=0.25)
def load_digits(*, common: CommonOptions) -> Dataset:
    """1,797 scans of handwritten digits, 8x8 grey, 10 classes: small enough for any machine.

    A fifth is the test split, the same for every seed. With the default ``validation``, the splits
    have 1,078 / 360 / 359 samples. Source: E. Alpaydin and C. Kaynak, Optical Recognition of
    Handwritten Digits, UCI, as shipped with scikit-learn.
    """
    table = np.loadtxt(_digits_file(), delimiter=",", dtype=np.int64)
    # 0..16 on the scale 0..255, rounded
    images = ((table[:, :-1] * 255 + 8) // 16).astype(np.uint8).reshape(-1, 1, 8, 8)
    about = About(name="digits", classes=tuple("0123456789"), measure=Images.measured)
    return build_dataset({"train": Part(images, Targets(table[:, -1]))}, about, common)


def _digits_file() -> Path:
    # Importing scikit-learn takes seconds, and only its data file is needed.
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("dataset 'digits' is part of scikit-learn, which is not installed")
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
