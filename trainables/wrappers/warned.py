"""Warnings of a worker's process, whose output no user sees, for the driver."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from trainables.contract.report import Failed, Progressed

R = TypeVar("R")
_MOST: Final = 20  # lines of a process: more would hide the rest of the output


class Warned:
    """Collects the first warning of each place in the code, from the creation on."""

    def __init__(self) -> None:
        self._places: set[tuple[type[Warning], str, int]] = set()
        self._new: list[str] = []
        self._show = warnings.showwarning
        warnings.showwarning = self._collect

    def _collect(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        *more: Any,
        **named: Any,
    ) -> None:
        place = category, filename, lineno
        if place not in self._places and len(self._places) < _MOST:
            self._places.add(place)
            said = " ".join(str(message).split())
            self._new.append(f"{category.__name__}: {said} ({_short(filename)}, line {lineno})")
        self._show(message, category, filename, lineno, *more, **named)

    def added_to(self, report: R) -> R:
        """A report of an epoch or a failure, with the warnings since the previous one."""
        if not self._new or not isinstance(report, Progressed | Failed):
            return report
        new, self._new = tuple(self._new), []
        return replace(report, warnings=new)


def _short(file: str) -> str:
    return "/".join(Path(file).parts[-2:])
