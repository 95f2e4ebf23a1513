"""The samples that `on_bad_sample: skip` left out of a sweep, kept for its report and MLflow."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trainables.files.storage import Folder

if TYPE_CHECKING:
    from trainables.data.core.base import Data

SKIPPED: Final = "skipped_samples.txt"


def skipped_files(dataset: Data) -> dict[str, bytes]:
    """What a sweep's folder keeps of them: name and content of a file, if there are any."""
    return {SKIPPED: "\n".join(dataset.notes).encode()} if dataset.notes else {}


def read_skipped(folder: Folder) -> str:
    """How many there are and which, one a line; empty where there are none."""
    with suppress(OSError, ValueError):
        return folder.read(SKIPPED).decode() if folder.exists(SKIPPED) else ""
    return ""
