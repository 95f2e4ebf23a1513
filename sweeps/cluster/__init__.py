"""Everything that uses Ray on the driver."""

from __future__ import annotations

from typing import Final, NamedTuple

_PREFIX: Final = "calsweep:"


class Announcement(NamedTuple):
    """A sweep on a cluster, and its ``scaling.priority``."""

    sweep: str
    priority: int

    def __str__(self) -> str:
        """The name of the placement group by which the sweep announces itself."""
        return f"{_PREFIX}{self.sweep}:{self.priority}"

    @classmethod
    def read(cls, name: str) -> Announcement | None:
        """The sweep of a placement group of this name; None if it is another one's."""
        if not name.startswith(_PREFIX):
            return None
        sweep, _, priority = name.removeprefix(_PREFIX).partition(":")
        return cls(sweep, int(priority) if priority else 0)
