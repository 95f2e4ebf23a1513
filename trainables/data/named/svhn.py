"""Street View House Numbers."""

import os
from typing import Any

import numpy as np

from trainables.data.core.base import Dataset
from trainables.data.core.splits import HeldOut, Imbalance, SampleCount
from trainables.data.core.types import Labels, Pixels
from trainables.data.named.torchvision_files import BY_NAME, load_torchvision


def load_svhn(
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    imbalance: Imbalance = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """73,257 training and 26,032 test photographs of digits, 32x32 colour, 10 classes.

    Source: Y. Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning,
    2011.

    Options:
        root: Folder that contains ``train_32x32.mat`` and ``test_32x32.mat``.
    """
    from torchvision.datasets import SVHN  # takes seconds to import

    return load_torchvision(
        "svhn",
        SVHN,
        _arrays,
        root=root,
        folder="train_32x32.mat",
        download=download,
        augmentation="crop",
        parts=BY_NAME,
        classes=lambda _: "0123456789",
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def _arrays(part: Any) -> tuple[Pixels, Labels]:
    return np.ascontiguousarray(part.data), np.asarray(part.labels, dtype=np.int64)
