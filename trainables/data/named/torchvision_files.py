"""Datasets of images that torchvision reads."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainables.contract.config import AugmentationName
from trainables.data.core.base import Dataset
from trainables.data.core.splits import build_dataset
from trainables.data.core.types import Labels, Pixels
from trainables.data.kinds.samples import Images

Parts = tuple[dict[str, Any], dict[str, Any]]
BY_FLAG: Final[Parts] = {"train": True}, {"train": False}
BY_NAME: Final[Parts] = {"split": "train"}, {"split": "test"}


def load_torchvision(
    name: str,
    source: Callable[..., Any],
    arrays: Callable[[Any], tuple[Pixels, Labels]],
    *,
    root: str | os.PathLike[str],
    folder: str,
    download: bool,
    augmentation: AugmentationName,
    parts: Parts = BY_FLAG,
    classes: Callable[[Any], Sequence[str]] = lambda part: part.classes,
    **splitting: Any,
) -> Dataset:
    """Reads a torchvision dataset and holds out validation data.

    Args:
        name: Name of the dataset in calsweep.
        source: The torchvision class.
        arrays: Returns the images (N, C, H, W), uint8, and the labels (N,), int64, of a part.
        root: The user's folder of datasets.
        folder: Name of the folder or file that torchvision creates in ``root`` for this dataset.
        download: Download the dataset if it does not exist.
        augmentation: The usual training augmentation.
        parts: Keyword arguments that select the training and the test part.
        classes: Returns the class names, given the training part.
        **splitting: See :func:`~trainables.data.core.splits.build_dataset`.

    Raises:
        FileNotFoundError: The dataset does not exist, and ``download`` is false.
        ValueError: Files are missing or damaged.
        ConnectionError: The download fails.
    """
    train, test = _open(name, source, Path(root), folder, download, parts)
    return build_dataset(
        name,
        train=arrays(train),
        test=arrays(test),
        classes=tuple(classes(train)),
        measure=partial(Images.measured, augmentation=augmentation),
        **splitting,
    )


def _open(
    name: str, source: Callable[..., Any], root: Path, folder: str, download: bool, parts: Parts
) -> tuple[Any, Any]:
    place = root / folder
    if download:
        try:
            for part in parts:
                source(root, **part, download=True)
        except (OSError, RuntimeError) as error:
            raise ConnectionError(
                f"dataset {name!r} cannot be downloaded to root={str(root)!r}: {error}"
            ) from error
    elif not place.exists():
        raise FileNotFoundError(
            f"dataset {name!r}: {place} does not exist; set root to the folder that holds "
            f"{folder}, or set download: true to fetch it"
        )
    try:
        return source(root, **parts[0]), source(root, **parts[1])
    # The type of error for a damaged file depends on where it is damaged.
    except Exception as error:
        raise ValueError(
            f"dataset {name!r}: files in {place} are missing or damaged ({error}); remove the "
            "folder and set download: true to fetch it again"
        ) from error
