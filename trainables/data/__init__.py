"""Datasets by name, or by the dotted path of your own loader.

A loader is a function with keyword options that returns a :class:`Dataset`, or arrays. To add one,
write its file and list it in the table below. An installed package registers loaders with the entry
point group ``calsweep.datasets``. This package does not import torch.

Options that several loaders share:
    seed: Seed of the validation split and the subset.
    validation: Fraction or number of training samples to hold out. For files also the path of the
        validation split.
    validation_per_class: Number of training samples of each class to hold out, instead of
        ``validation``. They are drawn before ``imbalance`` thins the others.
    train_samples: Number of training samples to use.
    test_size: Fraction or number of samples for the test split, the same for every seed.
    download: Download the files if they do not exist.
    imbalance: Train and validate on a long-tailed subset, in which the last class has this fraction
        of the samples of the first; the test split stays balanced, and so does a validation split
        of ``validation_per_class``.
    on_bad_sample: ``skip`` skips unusable samples and counts them.
    image_size: Resize the shorter side to this and crop the centre; needed if sizes differ.
    storage: Where images are kept: decoded in ``memory``, or encoded on disk (``stream``). The
        default depends on their size.
    cache: Cache folder of streamed images (default: ``~/.cache/calsweep``).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from trainables.data.core.base import Dataset, Split
from trainables.data.core.equal_rows import copies_of, equal_numbers, remark_on_copies
from trainables.data.core.samples import Samples
from trainables.data.core.tasks import EachPixel, OneClass, SeveralLabels
from trainables.data.kinds.arrays import Arrays, Images, SegmentedImages
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
from trainables.data.readers.arrays import dataset_from_arrays
from trainables.plugins.components import Catalogue, check_options, options_of

__all__ = [
    "Arrays",
    "Dataset",
    "EachPixel",
    "Images",
    "OneClass",
    "Samples",
    "SegmentedImages",
    "SeveralLabels",
    "Split",
    "Subwords",
    "TableRows",
    "Tokens",
    "WeightedWords",
    "available_datasets",
    "check_dataset_options",
    "dataset_from_arrays",
    "dataset_loader",
    "dataset_options",
    "load_dataset",
]

CATALOGUE: Final = Catalogue(
    kind="dataset",
    group="calsweep.datasets",
    ours={
        "arrow": "trainables.data.readers.labelled_rows:load_arrow",
        "cifar10": "trainables.data.named.torchvision_files:load_cifar10",
        "cifar100": "trainables.data.named.torchvision_files:load_cifar100",
        "csv": "trainables.data.readers.labelled_rows:load_csv",
        "digits": "trainables.data.named.digits:load_digits",
        "fashion_mnist": "trainables.data.named.torchvision_files:load_fashion_mnist",
        "image_folder": "trainables.data.readers.image_folder:load_image_folder",
        "imagenet": "trainables.data.readers.image_folder:load_imagenet",
        "jsonl": "trainables.data.readers.labelled_rows:load_jsonl",
        "mnist": "trainables.data.named.torchvision_files:load_mnist",
        "npy": "trainables.data.readers.arrays:load_npy",
        "npz": "trainables.data.readers.arrays:load_npz",
        "parquet": "trainables.data.readers.labelled_rows:load_parquet",
        "stl10": "trainables.data.named.torchvision_files:load_stl10",
        "svhn": "trainables.data.named.torchvision_files:load_svhn",
        "tiny_imagenet": "trainables.data.named.tiny_imagenet:load_tiny_imagenet",
        "voc": "trainables.data.named.voc:load_voc",
    },
)
_RESERVED = ("seed",)


available_datasets: Final = CATALOGUE.names
"""Names that :func:`load_dataset` knows, sorted."""

dataset_loader: Callable[[str], Callable[..., Dataset]] = CATALOGUE.find
"""The loader with a name, or at ``package.module:function``; raises ``ValueError``."""


def dataset_options(name: str) -> dict[str, object]:
    """Each option of a dataset with its default, or ``components.REQUIRED``; errors as above."""
    return options_of(dataset_loader(name), _RESERVED)


def check_dataset_options(name: str, **options: Any) -> None:
    """Raises ``ValueError`` if names, types or ranges of options are wrong; loads nothing."""
    check_options(f"dataset {name!r}", dataset_loader(name), options, _RESERVED)


def load_dataset(name: str, *, seed: int, **options: Any) -> Dataset:
    """Loads a dataset and splits it.

    A loader, ``package.module:function``, is called with ``seed`` and the options. It returns a
    :class:`Dataset`; or samples and labels (and weights), from which test and validation samples
    are held out; two such pairs, for training and test; or three, for training, validation and
    test. Equal seeds, from 0, give equal splits.

    Raises:
        ValueError: The name, an option or the data is wrong.
        FileNotFoundError: The files do not exist.
        TypeError: A custom loader returned neither a :class:`Dataset` nor arrays.
    """
    check_dataset_options(name, **options)
    if not seed >= 0:
        raise ValueError(f"seed={seed!r} must be at least 0")
    dataset = dataset_loader(name)(seed=seed, **options)
    if isinstance(dataset, Dataset):
        return _with_copies(dataset)
    if isinstance(dataset, tuple) and len(dataset) in (2, 3):
        train, *held, test = dataset if isinstance(dataset[0], tuple) else (dataset, None)
        if all(isinstance(part, tuple) for part in (train, *held, test) if part is not None):
            return _with_copies(dataset_from_arrays(name, train, test, *held, seed=seed))
    raise TypeError(
        f"dataset {name!r} returned a {type(dataset).__name__} that is not a Dataset, nor arrays: "
        "samples and labels, or two or three such pairs: (train, test) or (train, validation, test)"
    )


def _with_copies(dataset: Dataset) -> Dataset:
    """The dataset, which knows and says which held-out samples equal training samples."""
    copies = dataset.copies
    if copies is None:
        splits = dataset.train, dataset.validation, dataset.test
        trained, *held = equal_numbers([split.inputs for split in splits])
        found = zip(("validation", "test"), held, strict=True)
        copies = {name: copies_of(trained, own) for name, own in found}
    return replace(dataset, copies=copies, remarks=(*dataset.remarks, *remark_on_copies(copies)))
