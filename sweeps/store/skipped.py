"""The samples that `on_bad_sample: skip` left out, stored for the report and MLflow."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from trainables.files.storage import Folder

if TYPE_CHECKING:
    from trainables.data.core.base import Data

SKIPPED: Final = "skipped_samples.txt"


def skipped_files(dataset: Data) -> dict[str, bytes]:
    """Name and content of the file that stores skipped samples, if there are any."""
    return {SKIPPED: "\n".join(dataset.notes).encode()} if dataset.notes else {}


def read_skipped(folder: Folder) -> str:
    """The number of skipped samples, then one sample per line; empty if there are none."""
    with suppress(OSError, ValueError):
        return (folder.read_if_exists(SKIPPED) or b"").decode()
    return ""
