"""JSON files without which a sweep can do."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from trainables.files.storage import Folder

T = TypeVar("T")
logger = logging.getLogger("calsweep")


def read_json(
    folder: Folder, name: str, convert: Callable[[Any], T], missing: T, without: str
) -> T:
    """What a file holds; `missing` if there is none, or it is damaged, which is logged."""
    try:
        data = folder.read_if_exists(name)
        return missing if data is None else convert(json.loads(data))
    except (IsADirectoryError, ValueError, TypeError, KeyError):
        logger.warning("%s/%s is damaged; %s", folder.uri, name, without)
        return missing
