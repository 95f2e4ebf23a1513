"""Unusable samples: reported in one error, or skipped, counted and listed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

OnBadSample: TypeAlias = Literal["error", "skip"]
"""How to treat unusable samples."""

_SHOWN, _KEPT = 10, 1000


@dataclass(eq=False)
class BadSamples:
    """The unusable samples of one part of a dataset, with reasons.

    ``count`` is the size of the part; ``where`` names the file and row of a sample.
    """

    count: int
    where: Callable[[int], str]
    faults: dict[int, str] = field(default_factory=dict)

    def add(self, index: int, fault: str) -> None:
        """Records the fault of a sample; only the first fault of each is kept."""
        self.faults.setdefault(index, fault)

    def add_each(self, wrong: Any, fault: str | Callable[[int], str]) -> None:
        """Records the fault of samples where ``wrong`` (N,) is true, an array or Arrow's."""
        for row in np.flatnonzero(np.asarray(wrong)).tolist():
            self.add(row, fault if isinstance(fault, str) else fault(row))

    def raise_first(self) -> None:
        """Raises ``ValueError`` about the first bad sample, if there is one."""
        if self.faults:
            row = min(self.faults)
            raise ValueError(f"{self.where(row)}: {self.faults[row]}")

    def good(self) -> npt.NDArray[np.intp]:
        """Indices of the usable samples."""
        return np.setdiff1d(np.arange(self.count), np.array(list(self.faults), dtype=np.intp))


def settle(
    parts: list[BadSamples], on_bad_sample: OnBadSample, skip: str = "dataset.on_bad_sample: skip"
) -> tuple[str, ...]:
    """Raises one ``ValueError`` about all bad samples, or returns notes if they are skipped.

    A note per part with skipped samples: their number in the first line, then up to a thousand
    lines with a sample and its fault. At least one sample must be left. ``skip`` is the option that
    skips them, for the message.
    """
    notes = []
    for part in parts:
        if part.count == 0:
            raise ValueError("there are no samples; at least one is needed")
        if len(part.faults) == part.count or (part.faults and on_bad_sample == "error"):
            raise ValueError(_list(part, skip))
        if part.faults:
            head = f"{len(part.faults):,} of {part.count:,} samples are skipped:"
            notes.append("\n".join([head, *_lines(part, _KEPT)]))
    return tuple(notes)


def _lines(part: BadSamples, most: int) -> list[str]:
    rows = sorted(part.faults)
    more = [f"... and {len(rows) - most:,} more"] if len(rows) > most else []
    return [*(f"{part.where(row)}: {part.faults[row]}" for row in rows[:most]), *more]


def _list(part: BadSamples, skip: str) -> str:
    lines = _lines(part, _SHOWN)
    if len(part.faults) == part.count > 1:
        return "\n".join([f"none of the {part.count:,} samples can be used:", *lines])
    if len(part.faults) == 1:
        return lines[0]
    # If most are bad, the file or an option is wrong.
    advice = f" ({skip} skips them)" if 2 * len(part.faults) <= part.count else ""
    head = f"{len(part.faults):,} of {part.count:,} samples cannot be used{advice}:"
    return "\n".join([head, *lines])
