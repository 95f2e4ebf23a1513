"""Images in one folder per class: your own, and ImageNet."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from trainables.contract.config import AugmentationName
from trainables.data.core.bad_samples import BadSamples, OnBadSample, settle
from trainables.data.core.base import Dataset
from trainables.data.core.splits import (
    HeldOut,
    Imbalance,
    SampleCount,
    build_dataset,
    split_off_test,
)
from trainables.data.core.types import Indices, Labels, Stored
from trainables.data.kinds.samples import Images
from trainables.data.readers.images import Encoded
from trainables.data.readers.storing import Cache, ImagePart, Storage, hold_images, origin_of
from trainables.plugins.components import Range

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def load_image_folder(
    *,
    seed: int,
    root: str | os.PathLike[str],
    test_size: HeldOut = 0.2,
    image_size: Annotated[int, Range(1)] | None = None,
    on_bad_sample: OnBadSample = "error",
    storage: Storage = None,
    cache: Cache = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """Images in ``root/train/<class>/`` and ``root/test/<class>/``, or in ``root/<class>/``.

    In the second form, ``test_size`` is held out as the test split, the same for every seed. Class
    names are the sorted names of the folders; images may be in subfolders. Hidden files and folders
    (such as ``.ipynb_checkpoints``), and files without an image extension, are ignored.

    Args:
        seed: Seed of the validation split and the subset.
        root: A local folder.
        test_size: Fraction or number of images for the test split if there is no ``root/test``.
        image_size: Resize the shorter side to this and crop the centre; needed if sizes differ.
        on_bad_sample: ``skip`` skips unreadable images and counts them.
        storage: Where images are kept: decoded in ``memory``, or encoded on disk (``stream``). The
            default depends on their size.
        cache: Cache folder of streamed images (default: ``~/.cache/calsweep``).
        validation: Fraction or number of training images to hold out.
        train_samples: Number of training images to use.
    """
    place = Path(root).expanduser()
    if not place.is_dir():
        raise FileNotFoundError(f"root={os.fspath(root)} is not a folder")
    own_test = (place / "test").is_dir()
    if own_test != (place / "train").is_dir():
        missing = "train" if own_test else "test"
        raise FileNotFoundError(f"root={place} has no folder {missing!r}; both or none are needed")
    return read_folders(
        "image_folder",
        place / "train" if own_test else place,
        place / "test" if own_test else None,
        image_size=image_size,
        on_bad_sample=on_bad_sample,
        storage=storage,
        cache=cache,
        test_size=test_size,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def load_imagenet(
    *,
    seed: int,
    root: str | os.PathLike[str],
    image_size: Annotated[int, Range(1)] = 224,
    imbalance: Imbalance = None,
    on_bad_sample: OnBadSample = "error",
    storage: Storage = None,
    cache: Cache = None,
    validation: HeldOut = 50_000,
    train_samples: SampleCount = None,
) -> Dataset:
    """ImageNet in folders: 1,281,167 training and 50,000 test images, 1000 classes.

    The test split is the published validation set, whose labels are known. In memory,
    ``image_size: 64`` takes 16 GB.

    Source: O. Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, 2015.

    Args:
        seed: Seed of the validation split and the subset.
        root: Folder that contains ``train/<class>/`` and ``val/<class>/``.
        image_size: Resize the shorter side to this and crop the centre.
        imbalance: Train and validate on a long-tailed subset, in which the last class has this
            fraction of the samples of the first; the test split stays balanced.
        on_bad_sample: ``skip`` skips unreadable images and counts them.
        storage: Where images are kept: decoded in ``memory``, or encoded on disk (``stream``). The
            default depends on their size.
        cache: Cache folder of streamed images (default: ``~/.cache/calsweep``).
        validation: Fraction or number of training samples to hold out.
        train_samples: Number of training samples to use.
    """
    place = Path(root).expanduser()
    for part in ("train", "val"):
        if not (place / part).is_dir():
            raise FileNotFoundError(f"root={os.fspath(root)} has no folder {part!r}")
    return read_folders(
        "imagenet",
        place / "train",
        place / "val",
        image_size=image_size,
        on_bad_sample=on_bad_sample,
        storage=storage,
        cache=cache,
        augmentation="crop_flip",
        imbalance=imbalance,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def read_folders(
    name: str,
    train: Path,
    test: Path | None,
    *,
    image_size: int | None,
    on_bad_sample: OnBadSample,
    storage: Storage,
    cache: Cache,
    test_size: float | int = 0.2,
    augmentation: AugmentationName = "none",
    **splitting: Any,
) -> Dataset:
    """A dataset of images in one folder per class.

    Args:
        name: Name of the dataset.
        train: Folder with one subfolder per class.
        test: Folder of the test split; None holds out ``test_size``.
        image_size: See :func:`load_image_folder`.
        on_bad_sample: See :func:`load_image_folder`.
        storage: See :func:`load_image_folder`.
        cache: See :func:`load_image_folder`.
        test_size: See :func:`load_image_folder`.
        augmentation: The usual training augmentation.
        **splitting: See :func:`~trainables.data.core.splits.build_dataset`.

    Raises:
        ValueError: There are fewer than two classes, a test class is unknown, images differ in
            size, are unreadable, or do not fit into memory.
    """
    train_files, train_labels, classes, empty = _find(train)
    if len(classes) < 2:
        raise ValueError(f"root={train} has images of {classes[0]!r} only; two classes are needed")
    files, labels = [train_files], [train_labels]
    if test is not None:
        test_files, found, test_classes, more = _find(test)
        empty += more
        unknown = sorted(set(test_classes) - set(classes))
        if unknown:
            raise ValueError(
                f"{test} has class {unknown[0]!r}, which {train} has not; "
                f"known: {', '.join(classes)}"
            )
        files.append(test_files)
        labels.append(np.array([classes.index(name) for name in test_classes])[found])
    images, kept, notes = read_images(
        files,
        image_size=image_size,
        on_bad_sample=on_bad_sample,
        storage=storage,
        cache=cache,
    )
    labels = [each[rows] for each, rows in zip(labels, kept, strict=True)]
    if test is None:
        parts = split_off_test(labels[0], np.arange(len(labels[0])), classes, test_size)
        images, labels = [images[0][rows] for rows in parts], [labels[0][rows] for rows in parts]
    return build_dataset(
        name,
        train=(images[0], labels[0]),
        test=(images[1], labels[1]),
        classes=classes,
        measure=partial(Images.measured, augmentation=augmentation),
        notes=(*(f"{place} has no image and is left out" for place in empty), *notes),
        **splitting,
    )


def read_images(
    files: list[list[Path]],
    *,
    image_size: int | None,
    on_bad_sample: OnBadSample,
    storage: Storage,
    cache: Cache,
) -> tuple[list[Stored], list[Indices], tuple[str, ...]]:
    """The images of one or two lists of files.

    Returns:
        The usable images, with equal size and number of channels; their positions in each list;
        and notes for the user.

    Raises:
        ValueError: Images differ in size, are unreadable, or do not fit into memory.
    """
    bad = [BadSamples(len(part), partial(_name_file, part)) for part in files]
    parts = [
        ImagePart(partial(_contents, part), faults, partial(origin_of, part))
        for part, faults in zip(files, bad, strict=True)
    ]
    images = hold_images(parts, image_size=image_size, storage=storage, cache=cache)
    notes = settle(bad, on_bad_sample)
    kept = [each.good() for each in bad]
    return [each[rows] for each, rows in zip(images, kept, strict=True)], kept, notes


def _contents(files: list[Path]) -> Iterator[Encoded]:
    for file in files:
        try:
            yield file.read_bytes()
        except OSError as error:
            yield f"it cannot be read: {error}"


def _name_file(files: list[Path], index: int) -> str:
    return str(files[index])


def _find(folder: Path) -> tuple[list[Path], Labels, tuple[str, ...], list[Path]]:
    """Images, their labels, the classes, and folders without an image."""
    empty: list[Path] = []
    files: list[Path] = []
    labels: list[int] = []
    classes: list[str] = []
    for place in sorted(folder.iterdir()):
        if not place.is_dir() or place.name.startswith("."):
            continue
        found = [
            file
            for file in sorted(place.rglob("*"))
            if file.suffix.lower() in SUFFIXES
            and not any(part.startswith(".") for part in file.relative_to(place).parts)
        ]
        if not found:
            empty.append(place)
            continue
        files += found
        labels += [len(classes)] * len(found)
        classes.append(place.name)
    if not classes:
        raise ValueError(f"{folder} has no folder of images; known suffixes: {', '.join(SUFFIXES)}")
    return files, np.array(labels, dtype=np.int64), tuple(classes), empty
