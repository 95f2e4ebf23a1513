"""The progress of a sweep's trials, for all live views."""

from __future__ import annotations

from collections.abc import Mapping

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeps.results.so_far import SoFar

_BAR_WIDTH = 30


def ended(states: Mapping[str, int]) -> int:
    """The number of ended trials, from the number of trials in each state."""
    return sum(count for state, count in states.items() if state != "running")


def count_trials(states: Mapping[str, int], planned: int, running: int) -> list[str]:
    """The numbers of ended, running, stopped and failed trials as text."""
    counts = [
        f"{ended(states)}/{planned} trials",
        f"{running} running",
        f"{states.get('stopped', 0)} stopped early",
    ]
    return [*counts, f"{states['failed']} failed"] if "failed" in states else counts


def progress_bar(states: Mapping[str, int], planned: int, beside: str) -> Table:
    planned, done = max(1, planned), ended(states)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=planned, completed=min(done, planned), width=_BAR_WIDTH),
        Text(f"{done}/{planned} trials"),
        Text(beside, style="dim"),
    )
    return bar


def best_lines(found: SoFar) -> Text:
    """The best setting so far and the reason, for a terminal that wraps lines."""
    text = Text(f"best so far: {found.best}")
    return text.append(f"\n  {found.why}", style="dim") if found.why else text
