"""What a job reports to other programs: lines of its output that no person reads.

They are printed in jobs of a cluster only, whose output is all that ``calsweep status`` can read.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final, Literal

from sweeps.messages.formatting import SUBMITTED_TO

_PREFIX: Final = "calsweep-event: "


@dataclass(frozen=True)
class Event:
    """``begun``: the sweep exists, so it can be resumed. The others have a text for people."""

    kind: Literal["begun", "progress", "failed"]
    text: str = ""


def emit(event: Event) -> None:
    """Print an event in the output of a job; nothing elsewhere."""
    if SUBMITTED_TO in os.environ:
        with suppress(OSError, ValueError):  # the disk is full, or the output is closed
            print(f"{_PREFIX}{json.dumps(asdict(event))}", file=sys.stderr, flush=True)


def split_events(output: str) -> tuple[list[Event], str]:
    """The events in a job's output, and its other lines."""
    events, lines = [], []
    for line in output.splitlines(keepends=True):
        if line.startswith(_PREFIX):
            with suppress(ValueError, TypeError):  # cut off, or of another version
                events.append(Event(**json.loads(line.removeprefix(_PREFIX))))
        else:
            lines.append(line)
    return events, "".join(lines)
