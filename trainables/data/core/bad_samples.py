"""Samples that cannot be used: reported all at once, or skipped, counted and listed."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

OnBadSample: TypeAlias = Literal["error", "skip"]
"""What to do about samples that cannot be used."""

_SHOWN, _KEPT = 10, 1000


class BadSamples:
    """What is wrong with which samples of one part of a dataset.

    Args:
        count: Number of samples of the part.
        where: Names a sample by its index: file and row.
    """

    def __init__(self, count: int, where: Callable[[int], str]) -> None:
        self.count = count
        self.where = where
        self.faults: dict[int, str] = {}

    def add(self, index: int, fault: str) -> None:
        """Notes what is wrong with a sample; the first fault of each counts."""
        self.faults.setdefault(index, fault)

    def good(self) -> npt.NDArray[np.intp]:
        """Indices of the samples that nothing is wrong with."""
        return np.setdiff1d(np.arange(self.count), np.array(list(self.faults), dtype=np.intp))


def settle(parts: list[BadSamples], on_bad_sample: OnBadSample) -> tuple[str, ...]:
    """Ends the search for bad samples.

    Returns:
        Notes for the user, one for each part of which samples are skipped: how many in the first
        line, then what is wrong with which, one a line, up to a thousand.

    Raises:
        ValueError: There are some, and they are not to be skipped, or nothing is left.
    """
    notes = []
    for part in parts:
        if len(part.faults) == part.count or (part.faults and on_bad_sample == "error"):
            raise ValueError(_list(part))
        if part.faults:
            head = f"{len(part.faults):,} of {part.count:,} samples are skipped:"
            notes.append("\n".join([head, *_lines(part, _KEPT)]))
    return tuple(notes)


def _lines(part: BadSamples, most: int) -> list[str]:
    rows = sorted(part.faults)
    more = [f"... and {len(rows) - most:,} more"] if len(rows) > most else []
    return [*(f"{part.where(row)}: {part.faults[row]}" for row in rows[:most]), *more]


def _list(part: BadSamples) -> str:
    lines = _lines(part, _SHOWN)
    if len(part.faults) == 1:
        return lines[0]
    return "\n".join(
        [
            f"{len(part.faults):,} of {part.count:,} samples cannot be used (on_bad_sample: skip "
            "skips them):",
            *lines,
        ]
    )
