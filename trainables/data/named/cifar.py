"""CIFAR-10 and CIFAR-100."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trainables.data.core.base import Dataset
from trainables.data.core.splits import HeldOut, Imbalance, SampleCount, build_dataset
from trainables.data.core.types import Labels, Pixels
from trainables.data.kinds.samples import Images
from trainables.data.named.torchvision_files import open_splits


def load_cifar10(
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    imbalance: Imbalance = None,
    validation: HeldOut = 5_000,
    train_samples: SampleCount = None,
) -> Dataset:
    """50,000 training and 10,000 test photographs, 32x32 colour, 10 classes.

    Source: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.

    Args:
        seed: Seed of the validation split and the subset.
        root: Folder that contains ``cifar-10-batches-py``.
        download: Download the files if they do not exist.
        imbalance: Train and validate on a long-tailed subset, in which the last class has this
            fraction of the samples of the first (CIFAR-LT, K. Cao et al. 2019); the test split
            stays balanced.
        validation: Fraction or number of training samples to hold out.
        train_samples: Number of training samples to use.
    """
    from torchvision.datasets import CIFAR10  # takes seconds to import

    return _load(
        "cifar10",
        CIFAR10,
        root=root,
        download=download,
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def load_cifar100(
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    imbalance: Imbalance = None,
    validation: HeldOut = 5_000,
    train_samples: SampleCount = None,
) -> Dataset:
    """50,000 training and 10,000 test photographs, 32x32 colour, 100 classes.

    Source: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.

    Args:
        seed: Seed of the validation split and the subset.
        root: Folder that contains ``cifar-100-python``.
        download: Download the files if they do not exist.
        imbalance: Train and validate on a long-tailed subset, in which the last class has this
            fraction of the samples of the first (CIFAR-LT, K. Cao et al. 2019); the test split
            stays balanced.
        validation: Fraction or number of training samples to hold out.
        train_samples: Number of training samples to use.
    """
    from torchvision.datasets import CIFAR100  # takes seconds to import

    return _load(
        "cifar100",
        CIFAR100,
        root=root,
        download=download,
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def _load(
    name: str,
    source: Callable[..., Any],
    *,
    root: str | os.PathLike[str],
    download: bool,
    **splitting: Any,
) -> Dataset:
    folder: str = source.base_folder  # type: ignore[attr-defined]
    train, test = open_splits(name, source, root=root, folder=folder, download=download)

    def arrays(part: Any) -> tuple[Pixels, Labels]:
        images = np.ascontiguousarray(part.data.transpose(0, 3, 1, 2))
        return images, np.asarray(part.targets, dtype=np.int64)

    return build_dataset(
        name,
        train=arrays(train),
        test=arrays(test),
        classes=tuple(train.classes),
        measure=partial(Images.measured, augmentation="crop_flip"),
        **splitting,
    )
