"""Samples that cannot be used: all of them told at once, or passed over and counted."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

OnBadSample: TypeAlias = Literal["error", "skip"]
"""What to do about samples that cannot be used."""

_SHOWN = 10


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
        Notes for the user: how many were passed over, and the first of them.

    Raises:
        ValueError: There are some, and they are not to be passed over, or nothing is left.
    """
    notes = []
    for part in parts:
        if len(part.faults) == part.count or (part.faults and on_bad_sample == "error"):
            raise ValueError(_list(part))
        if part.faults:
            number, first = len(part.faults), min(part.faults)
            notes.append(
                f"{number:,} of {part.count:,} samples passed over, the first: "
                f"{part.where(first)}: {part.faults[first]}"
            )
    return tuple(notes)


def _list(part: BadSamples) -> str:
    lines = [f"{part.where(index)}: {part.faults[index]}" for index in sorted(part.faults)]
    if len(lines) == 1:
        return lines[0]
    more = [f"... and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return "\n".join(
        [
            f"{len(lines):,} of {part.count:,} samples cannot be used (on_bad_sample: skip passes "
            "over such samples):",
            *lines[:_SHOWN],
            *more,
        ]
    )
