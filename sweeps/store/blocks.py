"""Copies of the records of ended trials, a hundred per file, because object stores are slow.

The trials' own files remain the source of truth. When a hundred consecutive trials have ended,
their records are copied into one file, a block.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sweeps.errors import first_line
from sweeps.messages.formatting import finite
from sweeps.messages.reporter import logger
from sweeps.search.record import TrialRecord
from trainables.files.storage import Folder

SIZE = 100  # trials per block
READERS = 16  # at once
_FOLDER = "blocks"


def block_numbers(sweep: Folder) -> set[int]:
    """Numbers of the trials with copies, from the names of the blocks."""
    firsts = [int(name[:-5]) for name in (sweep / _FOLDER).names() if name[:-5].isdigit()]
    return {number for first in firsts for number in range(first, first + SIZE)}


def read_blocks(sweep: Folder) -> dict[int, TrialRecord]:
    """The copies by trial number; damaged blocks are skipped."""
    folder = sweep / _FOLDER
    with ThreadPoolExecutor(READERS) as pool:
        blocks = pool.map(partial(_read, folder), folder.names())
        return {record.number: record for block in blocks for record in block}


def _read(folder: Folder, name: str) -> list[TrialRecord]:
    try:
        return [TrialRecord.from_file(v["number"], v) for v in json.loads(folder.read(name))]
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        logger.warning("%s/%s: %s; the trials' own files are read", folder.uri, name, error)
        return []


class BlockWriter:
    """Copies records as trials end. A copy that cannot be written is written at the next resume.

    Blocks that are missing of the given records are written. Blocks of missing trials are deleted,
    because other trials may get their numbers. Raises OSError if the storage cannot be read.
    """

    def __init__(self, sweep: Folder, records: Collection[TrialRecord]) -> None:
        self._folder = sweep / _FOLDER
        self._ended: defaultdict[int, dict[int, TrialRecord]] = defaultdict(dict)
        self._written = block_numbers(sweep)
        self._forget_others(record.number for record in records if record.state != "running")
        for record in records:
            if record.state != "running" and record.number not in self._written:
                self._add(record)

    def _forget_others(self, numbers: Iterable[int]) -> None:
        gone = self._written.difference(numbers)
        for first in {number - number % SIZE for number in gone}:
            self._folder.delete(_name(first))
            self._written.difference_update(range(first, first + SIZE))

    def take(self, record: TrialRecord) -> None:
        """Called when a record changes; copies a block when its hundred trials have ended."""
        first, is_written = _first(record), record.number in self._written
        if record.state != "running":
            self.replace(record) if is_written else self._add(record)
            return
        if is_written:  # a trial that had failed runs again
            block = _read(self._folder, _name(first))
            self._forget_others(self._written - {record.number})
            self._ended[first] = {each.number: each for each in block}
        self._ended[first].pop(record.number, None)

    def _add(self, record: TrialRecord) -> None:
        first = _first(record)
        block = self._ended[first]
        block[record.number] = record  # a trial may be notified twice
        if len(block) == SIZE:
            self._write(first, self._ended.pop(first).values())

    def replace(self, record: TrialRecord) -> None:
        """Called when the record of an ended trial changes."""
        if record.number in self._written:
            first = _first(record)
            block = _read(self._folder, _name(first))
            self._write(first, [record if r.number == record.number else r for r in block])

    def _write(self, first: int, block: Iterable[TrialRecord]) -> None:
        self._written.update(range(first, first + SIZE))
        data = json.dumps([finite(record.to_file()) for record in block]).encode()
        try:
            self._folder.write(_name(first), data)
        except OSError as error:
            logger.warning("%s/%s: %s", self._folder.uri, _name(first), first_line(error))


def _first(record: TrialRecord) -> int:
    """The number of the first trial in a record's block."""
    return record.number - record.number % SIZE


def _name(first: int) -> str:
    return f"{first:05d}.json"
