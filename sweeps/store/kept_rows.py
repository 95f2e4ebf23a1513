"""Predictions of a sweep's trials, decoded once while they fit into memory."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from trainables.files.storage import Folder

if TYPE_CHECKING:
    from trainables.files.rows import Rows

_MOST_BYTES: Final = 2**29  # two splits of 50,000 samples with 1,000 classes


class KeptRows:
    """Reads predictions and keeps those used last, at most `most_bytes` of them.

    Larger ones are read whenever they are asked for. Several threads may share it.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[str, str], Rows] = OrderedDict()  # the last used is last
        self._lock = Lock()

    def find(self, folder: Folder, split: str, data: bytes | None = None) -> Rows | None:
        """The rows in a trial's folder, None if there are none; ValueError if they are damaged.

        `data` is the content of the file, if it has been read.
        """
        from trainables.files.rows import Rows, predictions_file  # imports numpy

        key = folder.uri, split
        with self._lock:
            rows = self._kept.pop(key, None)
            if rows is None:
                if data is None:
                    data = folder.read_if_exists(predictions_file(split))
                if data is None:
                    return None
                rows = Rows.decode(data)
            self._kept[key] = rows
            while sum(each.nbytes for each in self._kept.values()) > self._most_bytes:
                self._kept.popitem(last=False)
            return rows
