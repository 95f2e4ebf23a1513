"""MNIST and Fashion-MNIST."""

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
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """60,000 training and 10,000 test images of digits or clothes, 28x28 grey, 10 classes.

    Sources: Y. LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998; H.
    Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, arXiv:1708.07747.

    Options:
        root: Folder that contains ``MNIST/raw`` or ``FashionMNIST/raw``.
    """
    from torchvision.datasets import MNIST, FashionMNIST  # takes seconds to import

    source = MNIST if name == "mnist" else FashionMNIST
    return load_torchvision(
        name,
        source,
        _arrays,
        root=root,
        folder=source.__name__,
        download=download,
        augmentation="crop" if name == "mnist" else "crop_flip",
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


load_mnist = partial(_load, "mnist")
load_fashion_mnist = partial(_load, "fashion_mnist")


def _arrays(part: Any) -> tuple[Pixels, Labels]:
    return part.data.numpy()[:, np.newaxis], part.targets.numpy()
