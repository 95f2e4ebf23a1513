"""Images in one folder per class: your own, and ImageNet."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainables.contract.config import AugmentationName
from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Dataset, Targets
from trainables.data.core.divisions import SPLITS
from trainables.data.core.options import OF_IMAGES, CommonOptions, HeldOut, with_options
from trainables.data.core.splits import About, Part, build_dataset
from trainables.data.kinds.arrays import Images
from trainables.data.readers.storing import hold_images, image_part
from trainables.plugins.arguments import few

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class Trees:
    """The folders of the splits, each with a folder per class; None if there is none.

    ``unread`` are the folders next to them.
    """

    train: Path
    validation: Path | None = None
    test: Path | None = None
    unread: tuple[Path, ...] = ()


def find_trees(root: str | os.PathLike[str]) -> Trees:
    """The splits of a folder of images: folders called as splits, or the folder itself.

    A folder that contains images directly is a class, whatever its name.

    Raises:
        FileNotFoundError: There is no such folder, or a split other than training only.
        ValueError: Two folders are the same split.
    """
    place = Path(root).expanduser()
    if not place.is_dir():
        raise FileNotFoundError(f"root={os.fspath(root)} is not a folder")
    folders = _folders(place)
    found: dict[str, Path] = {}
    for split, names in SPLITS.items():
        called = [each for each in folders if each.name.lower() in names and _folders(each)]
        if len(called) > 1:
            raise ValueError(
                f"root={place} has the folders {called[0].name!r} and {called[1].name!r}, which "
                f"are both the {split} split; leave one"
            )
        found.update(zip((split,), called, strict=False))
    if not found:
        return Trees(place)
    if "train" not in found:
        known = next(iter(found.values())).name
        raise FileNotFoundError(
            f"root={place} has a folder {known!r}, and none of training images; allowed: "
            f"{' or '.join(map(repr, SPLITS['train']))}, in upper or lower case"
        )
    return Trees(**found, unread=tuple(each for each in folders if each not in found.values()))


@with_options(*OF_IMAGES, "test_size")
def load_image_folder(
    *, root: str | os.PathLike[str], validation: HeldOut | None = None, common: CommonOptions
) -> Dataset:
    """Images in ``root/train/<class>/`` and ``root/test/<class>/``, or in ``root/<class>/``.

    The folders of the splits are called train or training, test or testing, and val, valid or
    validation, in upper or lower case. Without a folder of test images, ``test_size`` is held out
    as the test split. Class names are the sorted names of the folders; images may be in subfolders.
    Hidden files and folders (such as ``.ipynb_checkpoints``), and files without an image extension,
    are ignored.

    Options:
        root: A local folder.
        validation: Fraction or number of training samples to hold out; by default the images in
            the folder of validation images, or 0.1 if there is none.
    """
    trees = find_trees(root)
    notes = [f"{place} is none of the splits, and is not read" for place in trees.unread]
    places = {"train": trees.train, "test": trees.test, "validation": trees.validation}
    if validation is not None:
        common = replace(common, validation=validation)
        if (unread := places.pop("validation")) is not None:
            notes.append(f"{unread} is not read, because validation={validation} is given")
    given = {split: place for split, place in places.items() if place is not None}
    return _read_folders("image_folder", given, common, notes=notes)


@with_options(*OF_IMAGES, "imbalance", image_size=224, validation=50_000)
def load_imagenet(
    *,
    root: str | os.PathLike[str],
    train_list: str | os.PathLike[str] | None = None,
    validation_list: str | os.PathLike[str] | None = None,
    common: CommonOptions,
) -> Dataset:
    """ImageNet in folders: 1,281,167 training and 50,000 test images, 1000 classes.

    The test split is the published validation set, whose labels are known. In memory, ``image_size:
    64`` takes 16 GB.

    Source: O. Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, 2015.

    Options:
        root: Folder that contains ``train/<class>/`` and ``val/<class>/``.
        train_list: A text file with a line for each training image, ``train/<class>/NAME.JPEG``
            and maybe a number, which is not read; by default all images. The list of ImageNet-LT
            (Z. Liu et al. 2019) is ``ImageNet_LT_train.txt`` of its authors.
        validation_list: The same for validation images, ``ImageNet_LT_val.txt``; by default they
            are held out of the training images.
    """
    place = Path(root).expanduser()
    for part in ("train", "val"):
        if not (place / part).is_dir():
            raise FileNotFoundError(f"root={os.fspath(root)} has no folder {part!r}")
    if train_list is None and validation_list is not None:
        raise ValueError("validation_list needs train_list, which leaves its images out")
    parts: dict[str, Path | _List] = {"train": place / "train", "test": place / "val"}
    for split, file in (("train", train_list), ("validation", validation_list)):
        if file is not None:
            parts[split] = _List(place, Path(file).expanduser())
    return _read_folders("imagenet", parts, common, augmentation="crop_flip")


class _List(NamedTuple):
    """Images below `root` that a text file lists, each in a folder with the name of its class."""

    root: Path
    file: Path


def _read_folders(
    name: str,
    places: Mapping[str, Path | _List],
    common: CommonOptions,
    *,
    augmentation: AugmentationName = "none",
    notes: Sequence[str] = (),
) -> Dataset:
    """A dataset of images in folders, or lists, of the parts.

    Raises:
        ValueError: There are fewer than two classes, a class of another part is not in training,
            images differ in size, are unreadable, or do not fit into memory.
    """
    found = {split: _find(place) for split, place in places.items()}
    classes = tuple(sorted(set(found["train"].names)))
    if len(classes) < 2:
        shown = getattr(places["train"], "file", places["train"])
        raise ValueError(f"root={shown} has images of {classes[0]!r} only; two classes are needed")
    numbers = {name: number for number, name in enumerate(classes)}
    parts = {}
    for split, part in found.items():
        if unknown := [each for each in part.names if each not in numbers]:
            raise ValueError(
                f"{part.where} has class {unknown[0]!r}, which the training images have not; "
                f"known: {few(classes)}"
            )
        labels = np.array([numbers[each] for each in part.names], dtype=np.int64)
        parts[split] = Part(part.files, Targets(labels))
    about = About(
        name=name,
        classes=classes,
        measure=partial(Images.measured, augmentation=augmentation),
        notes=(*notes, *(note for part in found.values() for note in part.notes)),
    )
    return build_dataset(read_images(parts, common), about, common)


def read_images(parts: Mapping[str, Part], common: CommonOptions) -> dict[str, Part]:
    """The parts with images, given those with files; see :func:`hold_images`."""
    names = [list(map(str, part.raw)) for part in parts.values()]
    bad = [BadSamples(len(own), own.__getitem__) for own in names]
    sources = [image_part(part.raw, own) for part, own in zip(parts.values(), bad, strict=True)]
    held = zip(parts.items(), hold_images(sources, common), bad, strict=True)
    return {split: Part(own, part.targets, faults) for (split, part), own, faults in held}


@dataclass(frozen=True)
class _Found:
    """The images of a part at a place, their classes by name, and what to say about folders."""

    where: Path
    files: list[Path]
    names: list[str]
    notes: Sequence[str] = ()


def _find(place: Path | _List) -> _Found:
    """The images in a folder of classes, or in a list."""
    if isinstance(place, _List):
        return _find_listed(place)
    everything = {folder: images_below(folder) for folder in _folders(place)}
    if not (images := {folder: found for folder, found in everything.items() if found}):
        raise ValueError(f"{place} has no folder of images; known suffixes: {', '.join(SUFFIXES)}")
    notes = [f"{empty} has no image and is left out" for empty in everything if empty not in images]
    nested = [folder for folder, found in images.items() if folder not in {f.parent for f in found}]
    if nested:
        inside = sorted({found.relative_to(nested[0]).parts[0] for found in images[nested[0]]})
        notes.append(
            f"{place}: {len(nested)} of {len(images)} class folders contain only folders "
            f"({nested[0].name} contains {few(inside)}); their names are not used, so check that "
            "the classes are the outer ones"
        )
    names = [folder.name for folder, found in images.items() for _ in found]
    return _Found(place, [file for found in images.values() for file in found], names, notes)


def _find_listed(part: _List) -> _Found:
    try:
        lines = part.file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ValueError(f"{part.file} cannot be read ({error}); it lists images") from None
    if not (files := [part.root / line.split()[0] for line in lines if line.strip()]):
        raise ValueError(f"{part.file} lists no image")
    return _Found(part.file, files, [file.parent.name for file in files])


def _folders(place: Path) -> list[Path]:
    """The folders in a folder, sorted, without hidden ones."""
    return [each for each in sorted(place.iterdir()) if each.is_dir() and each.name[0] != "."]


def images_below(place: Path) -> list[Path]:
    """The images below a folder, sorted, without hidden ones."""
    return [
        file
        for file in sorted(place.rglob("*"))
        if file.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(place).parts)
    ]
