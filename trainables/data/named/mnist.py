"""MNIST and Fashion-MNIST."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trainables.contract.config import AugmentationName
from trainables.data.core.base import Dataset
from trainables.data.core.splits import HeldOut, Imbalance, SampleCount, build_dataset
from trainables.data.core.types import Labels, Pixels
from trainables.data.kinds.samples import Images
from trainables.data.named.torchvision_files import open_splits


def load_mnist(
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    imbalance: Imbalance = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """60,000 training and 10,000 test images of handwritten digits, 28x28 grey, 10 classes.

    Source: Y. LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998.

    Args:
        seed: Seed of the validation split and the subset.
        root: Folder that contains ``MNIST/raw``.
        download: Download the files if they do not exist.
        imbalance: Train and validate on a long-tailed subset, in which the last class has this
            fraction of the samples of the first; the test split stays balanced.
        validation: Fraction or number of training samples to hold out.
        train_samples: Number of training samples to use.
    """
    from torchvision.datasets import MNIST  # takes seconds to import

    return _load(
        "mnist",
        MNIST,
        "crop",
        root=root,
        download=download,
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def load_fashion_mnist(
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    imbalance: Imbalance = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """60,000 training and 10,000 test images of clothes, 28x28 grey, 10 classes.

    Source: H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, arXiv:1708.07747.

    Args:
        seed: Seed of the validation split and the subset.
        root: Folder that contains ``FashionMNIST/raw``.
        download: Download the files if they do not exist.
        imbalance: Train and validate on a long-tailed subset, in which the last class has this
            fraction of the samples of the first; the test split stays balanced.
        validation: Fraction or number of training samples to hold out.
        train_samples: Number of training samples to use.
    """
    from torchvision.datasets import FashionMNIST  # takes seconds to import

    return _load(
        "fashion_mnist",
        FashionMNIST,
        "crop_flip",
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
    augmentation: AugmentationName,
    *,
    root: str | os.PathLike[str],
    download: bool,
    **splitting: Any,
) -> Dataset:
    folder: str = source.__name__
    train, test = open_splits(name, source, root=root, folder=folder, download=download)

    def arrays(part: Any) -> tuple[Pixels, Labels]:
        return part.data.numpy()[:, np.newaxis], part.targets.numpy()

    return build_dataset(
        name,
        train=arrays(train),
        test=arrays(test),
        classes=tuple(train.classes),
        measure=partial(Images.measured, augmentation=augmentation),
        **splitting,
    )
