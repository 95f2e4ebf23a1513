"""The user's own images in one folder per class."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from trainables.components import Range
from trainables.data.base import Dataset
from trainables.data.images import decode_images, match_channels
from trainables.data.samples import Images
from trainables.data.splits import (
    HeldOut,
    Labels,
    Pixels,
    SampleCount,
    build_dataset,
    stratified_split,
)

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def load_image_folder(
    *,
    seed: int,
    root: str | os.PathLike[str],
    test_size: HeldOut = 0.2,
    image_size: Annotated[int, Range(1)] | None = None,
    validation: HeldOut = 0.1,
    train_samples: SampleCount = None,
) -> Dataset:
    """Images in ``root/train/<class>/`` and ``root/test/<class>/``, or in ``root/<class>/``.

    In the second form ``test_size`` makes the test split, the same for every seed. Class names are
    the names of the folders, sorted; images may lie deeper. Files that are no images by their
    suffix, and all that is hidden (``.ipynb_checkpoints``, say), are passed over.

    Args:
        seed: Chooses the validation samples and the subset.
        root: A local folder.
        test_size: Fraction or number of images for the test split, where there is no ``root/test``.
        image_size: Resize the shorter side to this and crop the centre; needed if sizes differ.
        validation: Fraction or number of training images to hold out.
        train_samples: Train on so many images only.
    """
    place = Path(root).expanduser()
    if not place.is_dir():
        raise FileNotFoundError(f"root={os.fspath(root)} is not a folder")
    own_test = (place / "test").is_dir()
    if own_test != (place / "train").is_dir():
        missing = "train" if own_test else "test"
        raise FileNotFoundError(f"root={place} has no folder {missing!r}; both or none are needed")
    train_files, train_labels, classes = _find(place / "train" if own_test else place)
    if len(classes) < 2:
        raise ValueError(f"root={place} has images of {classes[0]!r} only; two classes are needed")
    train_images = _read(train_files, image_size)
    if own_test:
        test_files, found, test_classes = _find(place / "test")
        unknown = sorted(set(test_classes) - set(classes))
        if unknown:
            raise ValueError(
                f"root={place}: test has class {unknown[0]!r}, which train has not; "
                f"known: {', '.join(classes)}"
            )
        test_labels = np.array([classes.index(name) for name in test_classes])[found]
        train_images, test_images = match_channels(train_images, _read(test_files, image_size))
    else:
        rest, held = stratified_split(
            train_labels, test_size, seed=0, classes=classes, option="test_size"
        )
        test_images, test_labels = train_images[held], train_labels[held]
        train_images, train_labels = train_images[rest], train_labels[rest]
    return build_dataset(
        "image_folder",
        train=(train_images, train_labels),
        test=(test_images, test_labels),
        classes=classes,
        measure=Images.measured,
        validation=validation,
        train_samples=train_samples,
        seed=seed,
    )


def _find(folder: Path) -> tuple[list[Path], Labels, tuple[str, ...]]:
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
            raise ValueError(f"{place} has no image; known suffixes: {', '.join(SUFFIXES)}")
        files += found
        labels += [len(classes)] * len(found)
        classes.append(place.name)
    if not classes:
        raise ValueError(f"{folder} has no folder of images")
    return files, np.array(labels, dtype=np.int64), tuple(classes)


def _read(files: Sequence[Path], image_size: int | None) -> Pixels:
    contents = (file.read_bytes() for file in files)
    return decode_images(
        contents, len(files), image_size=image_size, where=lambda index: str(files[index])
    )
