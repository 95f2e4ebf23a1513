"""Opening torchvision's datasets with clear error messages."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def open_splits(
    name: str,
    source: Callable[..., Any],
    *,
    root: str | os.PathLike[str],
    folder: str,
    download: bool,
    parts: tuple[dict[str, Any], dict[str, Any]] = ({"train": True}, {"train": False}),
) -> tuple[Any, Any]:
    """Opens the training and the test part of a torchvision dataset.

    Args:
        name: Name of the dataset in calsweep, for messages.
        source: The torchvision class.
        root: The user's folder of datasets.
        folder: Name of the folder or file that torchvision creates in ``root`` for this dataset.
        download: Download the dataset if it does not exist.
        parts: Keyword arguments that select the training and the test part.

    Raises:
        FileNotFoundError: The dataset does not exist, and ``download`` is false.
        ValueError: Files are missing or damaged.
        ConnectionError: The download fails.
    """
    place = Path(root) / folder
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
