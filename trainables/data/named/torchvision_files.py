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
        name: Our name of the dataset, for messages.
        source: torchvision's class.
        root: Where the user keeps datasets.
        folder: What torchvision makes below ``root`` for this one: a folder, or a file.
        download: Fetch it first if it is not there.
        parts: What names the training and the test part to torchvision.

    Raises:
        FileNotFoundError: Nothing is there, and ``download`` is false.
        ValueError: Files are missing or damaged.
        ConnectionError: It cannot be downloaded.
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
    # What a damaged file raises depends on where it is damaged.
    except Exception as error:
        raise ValueError(
            f"dataset {name!r}: files in {place} are missing or damaged ({error}); remove the "
            "folder and set download: true to fetch it again"
        ) from error
