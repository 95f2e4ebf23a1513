"""Fashion-MNIST."""

import os
from functools import partial

import numpy as np

from trainables.data.base import Dataset
from trainables.data.samples import Images
from trainables.data.splits import HeldOut, Labels, Pixels, SampleCount, build_dataset
from trainables.data.torchvision_files import open_splits


def load_fashion_mnist(
    *,
    seed: int,
    root: str | os.PathLike[str],
    download: bool = False,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """60,000 training and 10,000 test images of clothes, 28x28 grey, 10 classes.

    Source: H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, arXiv:1708.07747.

    Args:
        seed: Chooses the validation samples and the subset.
        root: Folder that holds ``FashionMNIST/raw``.
        download: Fetch the files if they are not there.
        validation: Fraction or number of training samples to hold out.
        train_samples: Train on so many samples only.
    """
    from torchvision.datasets import FashionMNIST  # takes seconds to import

    train, test = open_splits(
        "fashion_mnist", FashionMNIST, root=root, folder="FashionMNIST", download=download
    )

    def arrays(part: FashionMNIST) -> tuple[Pixels, Labels]:
        return part.data.numpy()[:, np.newaxis], part.targets.numpy()

    return build_dataset(
        "fashion_mnist",
        train=arrays(train),
        test=arrays(test),
        classes=tuple(train.classes),
        measure=partial(Images.measured, augmentation="crop_flip"),
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )
