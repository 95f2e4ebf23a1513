"""STL-10."""

import os
from typing import Any

import numpy as np

from trainables.data.core.base import Dataset
from trainables.data.core.splits import HeldOut, Imbalance, SampleCount, join_halves
from trainables.data.core.types import Labels, Pixels
from trainables.data.named.torchvision_files import BY_NAME, load_torchvision


def load_stl10(
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    binary: bool = False,
    imbalance: Imbalance = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """5,000 training and 8,000 test photographs, 96x96 colour, 10 classes.

    Source: A. Coates, A. Ng and H. Lee, An Analysis of Single Layer Networks in Unsupervised
    Feature Learning, 2011. The unlabelled images are not used.

    Options:
        root: Folder that contains ``stl10_binary``.
        binary: Join the classes to two, the first half and the second (Z. Yuan et al., Large-scale
            Robust Deep AUC Maximization, 2021).
    """
    from torchvision.datasets import STL10  # takes seconds to import

    def arrays(part: Any) -> tuple[Pixels, Labels]:
        labels = np.asarray(part.labels, dtype=np.int64)
        if binary:
            labels = (labels >= len(part.classes) // 2).astype(np.int64)
        return np.ascontiguousarray(part.data), labels

    return load_torchvision(
        "stl10",
        STL10,
        arrays,
        root=root,
        folder="stl10_binary",
        download=download,
        augmentation="crop_flip",
        parts=BY_NAME,
        classes=lambda part: join_halves(part.classes) if binary else part.classes,
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )
