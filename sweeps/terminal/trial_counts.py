"""How far a sweep's trials have come, as every live view shows it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeps.results.so_far import SoFar

_BAR_WIDTH = 30


def ended(states: Mapping[str, int]) -> int:
    """How many trials run no more, of how many there are in each state."""
    return sum(count for state, count in states.items() if state != "running")


def count_trials(states: Mapping[str, int], planned: int, running: int) -> list[str]:
    """How many trials have ended, run, were stopped and failed, in words."""
    counts = [
        f"{ended(states)}/{planned} trials",
        f"{running} running",
        f"{states.get('stopped', 0)} stopped early",
    ]
    return [*counts, f"{states['failed']} failed"] if "failed" in states else counts


def progress_bar(states: Mapping[str, int], planned: int, beside: str) -> Table:
    """A bar with the number of trials and something more beside it."""
    planned, done = max(1, planned), ended(states)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=planned, completed=min(done, planned), width=_BAR_WIDTH),
        Text(f"{done}/{planned} trials"),
        Text(beside, style="dim"),
    )
    return bar


def best_lines(found: SoFar) -> Text:
    """What is best so far and why, for a terminal, which wraps it."""
    text = Text(f"best so far: {found.best}")
    return text.append(f"\n  {found.why}", style="dim") if found.why else text
