"""What all live views show, and that of a sweep in another process, read from its store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeps.messages.formatting import format_rate
from sweeps.results.so_far import Glimpse, SoFar

_SECONDS = 2.0  # seconds between two reads, at least
_REST = 5.0  # times the duration of a read
_MOST_LINES = 8
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


def watch(look: Callable[[], Glimpse], console: Console) -> None:
    """Show a sweep until it has ended: live on a terminal, else a line after each change."""
    if not console.is_terminal:
        said = ""
        for line in (_line(glimpse) for glimpse in _looks(look)):
            if line != said:
                console.print(Text(line), soft_wrap=True)
                said = line
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        first: tuple[float, int] | None = None
        for glimpse in _looks(look):
            first = first or (time.monotonic(), glimpse.epochs)
            live.update(_view(glimpse, first))


def _looks(look: Callable[[], Glimpse]) -> Iterator[Glimpse]:
    while True:
        began = time.monotonic()
        glimpse = look()
        yield glimpse
        if glimpse.overview.state != "running":
            return
        time.sleep(max(_SECONDS, _REST * (time.monotonic() - began)))


def _line(glimpse: Glimpse) -> str:
    return glimpse.pilot or " · ".join([*_counts(glimpse), f"best so far: {glimpse.so_far}"])


def _counts(glimpse: Glimpse) -> list[str]:
    states = glimpse.overview.states
    return count_trials(states, glimpse.planned, states.get("running", 0))


def _view(glimpse: Glimpse, first: tuple[float, int]) -> RenderableType:
    rate = format_rate(glimpse.epochs - first[1], time.monotonic() - first[0])
    shown = glimpse.running[:_MOST_LINES]
    lines = [f"  {glimpse.pilot}"] if glimpse.pilot else []
    lines += [f"  {label}: epoch {done}/{full}" for label, done, full in shown]
    if len(glimpse.running) > len(shown):
        lines.append(f"  and {len(glimpse.running) - len(shown)} more")
    return Group(
        Text(f"{glimpse.overview.name}: {glimpse.overview.dataset}, {glimpse.overview.model}"),
        progress_bar(glimpse.overview.states, glimpse.planned, rate),
        Text("  ".join(_counts(glimpse)[1:]), style="dim"),
        best_lines(glimpse.so_far),
        Text("\n".join(lines), style="dim"),
    )
