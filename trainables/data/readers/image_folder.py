"""Images in one folder per class: your own, and ImageNet."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from trainables.contract.config import AugmentationName
from trainables.data.core.bad_samples import BadSamples, OnBadSample
from trainables.data.core.base import Dataset
from trainables.data.core.splits import HeldOut, Imbalance, SampleCount, build_from_parts
from trainables.data.core.types import Labels, Stored
from trainables.data.kinds.samples import Images
from trainables.data.readers.storing import Cache, Storage, hold_images, image_part
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

    In the second form, ``test_size`` is held out as the test split. Class names are the sorted
    names of the folders; images may be in subfolders. Hidden files and folders (such as
    ``.ipynb_checkpoints``), and files without an image extension, are ignored.

    Options:
        root: A local folder.
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

    The test split is the published validation set, whose labels are known. In memory, ``image_size:
    64`` takes 16 GB.

    Source: O. Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, 2015.

    Options:
        root: Folder that contains ``train/<class>/`` and ``val/<class>/``.
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
    """A dataset of images in folders ``train`` and ``test`` with one subfolder per class.

    Without ``test``, ``test_size`` is held out. ``**splitting`` is for
    :func:`~trainables.data.core.splits.build_dataset`; for the other options see
    :mod:`trainables.data`.

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
    images, bad = read_images(files, image_size, storage, cache)
    return build_from_parts(
        name,
        images,
        labels,
        bad,
        classes,
        on_bad_sample=on_bad_sample,
        test_size=test_size,
        measure=partial(Images.measured, augmentation=augmentation),
        notes=tuple(f"{place} has no image and is left out" for place in empty),
        **splitting,
    )


def read_images(
    files: list[list[Path]], image_size: int | None, storage: Storage, cache: Cache
) -> tuple[list[Stored], list[BadSamples]]:
    """The images of one or two lists of files, and the unusable ones; see :func:`hold_images`."""
    bad = [BadSamples(len(part), partial(_name_file, part)) for part in files]
    parts = [image_part(*each) for each in zip(files, bad, strict=True)]
    return hold_images(parts, image_size=image_size, storage=storage, cache=cache), bad


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
