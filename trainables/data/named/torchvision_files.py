"""Datasets of images that torchvision reads: CIFAR, MNIST, STL-10 and SVHN."""

import os
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from trainables.contract.config import AugmentationName
from trainables.data.core.base import Dataset, Targets
from trainables.data.core.options import CommonOptions, with_options
from trainables.data.core.splits import About, Part, build_dataset, join_halves
from trainables.data.kinds.arrays import Images
from trainables.data.readers.arrays import as_inputs
from trainables.plugins.extras import require_extra

_Parts = tuple[dict[str, object], dict[str, object]]
_BY_SPLIT: Final[_Parts] = {"split": "train"}, {"split": "test"}


class _Source(NamedTuple):
    reader: str  # class in torchvision.datasets
    folder: str  # folder or file that it creates in root
    augmentation: AugmentationName
    parts: _Parts = ({"train": True}, {"train": False})  # arguments that select each part


_SOURCES: Final = {
    "cifar10": _Source("CIFAR10", "cifar-10-batches-py", "crop_flip"),
    "cifar100": _Source("CIFAR100", "cifar-100-python", "crop_flip"),
    "fashion_mnist": _Source("FashionMNIST", "FashionMNIST", "crop_flip"),
    "mnist": _Source("MNIST", "MNIST", "crop"),
    "stl10": _Source("STL10", "stl10_binary", "crop_flip", _BY_SPLIT),
    "svhn": _Source("SVHN", "train_32x32.mat", "crop", _BY_SPLIT),
}


def find_torchvision(path: Path) -> dict[str, Path]:
    """The datasets at a path, as torchvision stores them, each with its option ``root``.

    The path is the root, the folder that torchvision creates in it, or ``raw`` below that.
    """
    found = {}
    for name, source in _SOURCES.items():
        mark = "raw" if source.reader in ("MNIST", "FashionMNIST") else ""
        for root in (path, path.parent, path.parent.parent):
            place = root / source.folder
            if (place / mark).exists() and path in (root, place, place / mark):
                found[name] = root
    return found


def _load(
    name: str, *, root: str | os.PathLike[str], download: bool = False, common: CommonOptions
) -> Dataset:
    """CIFAR-10 and CIFAR-100: 50,000 training and 10,000 test photographs, 32x32 colour.

    Long-tailed as CIFAR-LT (K. Cao et al. 2019). Source: A. Krizhevsky, Learning Multiple Layers of
    Features from Tiny Images, 2009.

    MNIST and Fashion-MNIST: 60,000 training and 10,000 test images of digits or clothes, 28x28
    grey, 10 classes. Sources: Y. LeCun et al., Gradient-Based Learning Applied to Document
    Recognition, 1998; H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, arXiv:1708.07747.

    SVHN: 73,257 training and 26,032 test photographs of digits, 32x32 colour, 10 classes. Source:
    Y. Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011.

    Options:
        root: Folder that contains ``cifar-10-batches-py``, ``cifar-100-python``, ``MNIST``,
            ``FashionMNIST``, or ``train_32x32.mat`` and ``test_32x32.mat``.
    """
    return _read(name, root, download=download, common=common)


_of_cifar = with_options("imbalance", validation=5_000)
load_cifar10, load_cifar100 = (_of_cifar(partial(_load, name)) for name in ("cifar10", "cifar100"))
load_fashion_mnist, load_mnist, load_svhn = (
    with_options("imbalance")(partial(_load, name)) for name in ("fashion_mnist", "mnist", "svhn")
)


@with_options("imbalance")
def load_stl10(
    *,
    root: str | os.PathLike[str],
    download: bool = False,
    binary: bool = False,
    common: CommonOptions,
) -> Dataset:
    """5,000 training and 8,000 test photographs, 96x96 colour, 10 classes.

    Source: A. Coates, A. Ng and H. Lee, An Analysis of Single Layer Networks in Unsupervised
    Feature Learning, 2011. The unlabelled images are not used.

    Options:
        root: Folder that contains ``stl10_binary``.
        binary: Join the classes to two, the first half and the second (Z. Yuan et al., Large-scale
            Robust Deep AUC Maximization, 2021).
    """
    return _read("stl10", root, download=download, common=common, binary=binary)


def _read(
    name: str,
    root: str | os.PathLike[str],
    *,
    download: bool,
    common: CommonOptions,
    binary: bool = False,
) -> Dataset:
    source = _SOURCES[name]
    train, test = _open(name, source, Path(root), download=download)
    classes = tuple(getattr(train, "classes", "0123456789"))
    parts = {}
    for split, read in (("train", train), ("test", test)):
        labels = np.asarray(read.labels if hasattr(read, "labels") else read.targets, np.int64)
        labels = (labels >= len(classes) // 2).astype(np.int64) if binary else labels
        parts[split] = Part(as_inputs(read.data, name), Targets(labels))
    about = About(
        name=name,
        classes=join_halves(classes) if binary else classes,
        measure=partial(Images.measured, augmentation=source.augmentation),
    )
    return build_dataset(parts, about, common)


def _open(name: str, source: _Source, root: Path, *, download: bool) -> tuple[Any, Any]:
    require_extra(f"dataset {name!r}", "images", "torchvision")
    from torchvision import datasets  # takes seconds to import

    reader, place = getattr(datasets, source.reader), root / source.folder
    if download:
        try:
            for part in source.parts:
                reader(root, **part, download=True)
        except (OSError, RuntimeError) as error:
            raise ConnectionError(
                f"dataset {name!r} cannot be downloaded to root={str(root)!r}: {error}"
            ) from error
    elif not place.exists():
        raise FileNotFoundError(
            f"dataset {name!r}: {place} does not exist; set root to the folder that holds "
            f"{source.folder}, or set download: true to fetch it"
        )
    try:
        return reader(root, **source.parts[0]), reader(root, **source.parts[1])
    # The type of error for a damaged file depends on where it is damaged.
    except Exception as error:
        raise ValueError(
            f"dataset {name!r}: files in {place} are missing or damaged ({error}); remove the "
            "folder and set download: true to fetch it again"
        ) from error
