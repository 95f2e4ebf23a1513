"""CIFAR-10 and CIFAR-100."""

import os
from functools import partial
from typing import Any

import numpy as np

from trainables.data.core.base import Dataset
from trainables.data.core.splits import HeldOut, Imbalance, SampleCount
from trainables.data.core.types import Labels, Pixels
from trainables.data.named.torchvision_files import load_torchvision


def _load(
    name: str,
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    imbalance: Imbalance = None,
    validation: HeldOut = 5_000,
    train_samples: SampleCount = None,
) -> Dataset:
    """50,000 training and 10,000 test photographs, 32x32 colour, 10 or 100 classes.

    Long-tailed as CIFAR-LT (K. Cao et al. 2019). Source: A. Krizhevsky, Learning Multiple Layers of
    Features from Tiny Images, 2009.

    Options:
        root: Folder that contains ``cifar-10-batches-py`` or ``cifar-100-python``.
    """
    from torchvision.datasets import CIFAR10, CIFAR100  # takes seconds to import

    source = CIFAR10 if name == "cifar10" else CIFAR100
    return load_torchvision(
        name,
        source,
        _arrays,
        root=root,
        folder=source.base_folder,
        download=download,
        augmentation="crop_flip",
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


load_cifar10 = partial(_load, "cifar10")
load_cifar100 = partial(_load, "cifar100")


def _arrays(part: Any) -> tuple[Pixels, Labels]:
    images = np.ascontiguousarray(part.data.transpose(0, 3, 1, 2))
    return images, np.asarray(part.targets, dtype=np.int64)
