"""Tiny-ImageNet."""

import os
from functools import partial
from pathlib import Path

import numpy as np

from trainables.data.core.base import Dataset, Targets
from trainables.data.core.options import OF_IMAGES, CommonOptions, with_options
from trainables.data.core.splits import About, Part, build_dataset
from trainables.data.kinds.arrays import Images
from trainables.data.readers.image_folder import read_images


@with_options(*OF_IMAGES, "imbalance", validation=10_000)
def load_tiny_imagenet(*, root: str | os.PathLike[str], common: CommonOptions) -> Dataset:
    """100,000 training and 10,000 test images, 64x64 colour, 200 classes.

    The test split is the published validation set, whose labels are known. By default, 50 images of
    each class are held out for validation, as in the calibration literature.

    Source: Y. Le and X. Yang, Tiny ImageNet Visual Recognition Challenge, 2015.

    Options:
        root: The unpacked ``tiny-imagenet-200``, or the folder that contains it.
    """
    place = Path(root).expanduser()
    inner = place / "tiny-imagenet-200"
    place = inner if inner.is_dir() else place
    annotations = place / "val" / "val_annotations.txt"
    if not annotations.is_file():
        raise FileNotFoundError(
            f"dataset 'tiny_imagenet': {annotations} does not exist; set root to the unpacked "
            "tiny-imagenet-200"
        )
    codes = sorted(folder.name for folder in (place / "train").iterdir() if folder.is_dir())
    train_files = [sorted((place / "train" / code / "images").glob("*.JPEG")) for code in codes]
    train_labels = np.repeat(np.arange(len(codes)), [len(files) for files in train_files])
    train = [file for found in train_files for file in found]
    about = About(
        name="tiny_imagenet",
        classes=_names(place / "words.txt", codes),
        measure=partial(Images.measured, augmentation="crop_flip"),
    )
    parts = {"train": Part(train, Targets(train_labels)), "test": _test_images(annotations, codes)}
    return build_dataset(read_images(parts, common), about, common)


def _test_images(annotations: Path, codes: list[str]) -> Part:
    """Files and labels of lines ``val_0.JPEG<tab>n03444034<tab>...``."""
    files, labels = [], []
    for number, line in enumerate(annotations.read_text().splitlines(), start=1):
        name, code = line.split("\t")[:2]
        if code not in codes:
            raise ValueError(f"{annotations}, line {number}: train has no class {code!r}")
        files.append(annotations.parent / "images" / name)
        labels.append(codes.index(code))
    return Part(files, Targets(np.array(labels, dtype=np.int64)))


def _names(words: Path, codes: list[str]) -> tuple[str, ...]:
    """The first word for each class, or its code if there is no word or it is not unique."""
    lines = words.read_text().splitlines() if words.is_file() else []
    known = dict(line.split("\t", 1) for line in lines if "\t" in line)
    names = [known.get(code, code).split(",")[0] for code in codes]
    return tuple(
        name if names.count(name) == 1 else code for name, code in zip(names, codes, strict=True)
    )
