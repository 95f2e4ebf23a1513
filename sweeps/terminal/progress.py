"""The progress of a running sweep: live on a terminal or in a notebook, otherwise as lines."""

from __future__ import annotations

import math
import time
from collections import Counter
from statistics import fmean
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from sweeps.messages.events import Event, emit
from sweeps.messages.formatting import budget_unit, format_rate, format_value
from sweeps.messages.redaction import redact
from sweeps.messages.reporter import Reporter
from sweeps.results.so_far import NONE_YET, SoFar, so_far
from sweeps.search import clock
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import TrialQueue
from sweeps.terminal.notebook import NotebookView
from sweeps.terminal.watching import best_lines, count_trials, progress_bar
from trainables.contract.messages import NEVER_STOPPED

_SECONDS_BETWEEN_LINES = 10.0
_REST_AFTER_CHOOSING = 50.0  # waits this many times as long as the last update took


class Progress(Reporter):
    """Shows the stages of the start, then the trials; plain lines without terminal and notebook.

    Without `live` there are plain lines only, so that a debugger can use the terminal.
    """

    def __init__(self, console: Console, *, live: bool = True) -> None:
        self._console = console
        self._may_be_live = live
        self._stage = "starting"
        self._queue: TrialQueue | None = None
        self._started = clock.time()
        self._last_line = 0.0
        self._last_fault = -math.inf
        self._live: Live | NotebookView | None = None
        self._epochs_before = 0
        self._best_so_far = NONE_YET
        self._best_due = 0.0

    def __enter__(self) -> Progress:
        if not self._may_be_live:
            return self
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._render,
                console=self._console,
                refresh_per_second=4,
                transient=True,
            )
        elif self._console.is_jupyter:
            self._live = NotebookView(self._render)
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
        else:
            self._print_line()

    def end(self) -> None:
        """Stop the view of the trials before the result is printed."""
        self._stop()
        self._live = self._queue = None
        self._last_line = -math.inf

    def left(self, text: str) -> None:
        """Show the remaining work after the end; called repeatedly as it decreases."""
        if self._live is None:
            self.__enter__()
        now = time.monotonic()
        if self._live is not None:
            self._stage = redact(text)
        elif now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.stage(text)

    def stage(self, text: str) -> None:
        text = self._stage = redact(text)
        if self._live is None:
            self._print(f"{text} ...")

    def notice(self, text: str) -> None:
        self._console.print(redact(text), highlight=False, soft_wrap=True, markup=False)

    def follow(self, queue: TrialQueue) -> None:
        """Show the trials of this queue from now on."""
        self._queue = queue
        self._started = clock.time()
        self._epochs_before = _epochs(queue)

    def fault(self, message: str) -> None:
        """Report that the sweep waits for something, without repeating it too often."""
        now = time.monotonic()
        if now - self._last_fault >= 30.0:
            self._last_fault = now
            self._print(f"{redact(message)}; waiting")

    def tick(self, *_: object) -> None:
        """Called after a change; without a terminal, prints a line now and then."""
        now = time.monotonic()
        if self._live is None and now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._print_line()

    def _print_line(self) -> None:
        if self._queue is not None:
            queue = self._queue
            counts = count_trials(_states(queue), queue.planned, queue.live)
            facts = [*counts, *self._rate(queue), *_budgets(queue), *_expectation(queue)]
            facts += [f"best so far: {self._best(queue)}", self._time_left(queue)]
            line = " · ".join(facts)
            self._print(line)
            emit(Event("progress", redact(line)))

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)  # no markup: it may be the user's console

    def _render(self) -> RenderableType:
        if self._queue is None:
            return Spinner("dots", text=Text(self._stage))
        queue = self._queue
        states = _states(queue)
        counts = count_trials(states, queue.planned, queue.live)[1:]
        return Group(
            progress_bar(states, queue.planned, self._time_left(queue)),
            Text("  ".join([*counts, *self._rate(queue), *_budgets(queue)]), style="dim"),
            *(Text(expected, style="dim") for expected in _expectation(queue)),
            best_lines(self._best(queue)),
            self._running(queue),
        )

    def _best(self, queue: TrialQueue) -> SoFar:
        """The best setting so far; selecting it reads all trials, so it is not done too often."""
        now = time.monotonic()
        if now >= self._best_due:
            self._best_so_far = so_far(Ranking(queue.records, queue.plan.rule))
            self._best_due = time.monotonic() + _REST_AFTER_CHOOSING * (time.monotonic() - now)
        return self._best_so_far

    def _rate(self, queue: TrialQueue) -> list[str]:
        rate = format_rate(_epochs(queue) - self._epochs_before, clock.time() - self._started)
        return [rate] if rate else []

    def _running(self, queue: TrialQueue) -> Text:
        running = [r for r in queue.records if r.state == "running"][:8]
        lines = [f"  {r.label}: epoch {r.epochs}/{queue.epochs(r)}" for r in running]
        return Text("\n".join(lines), style="dim")

    def _time_left(self, queue: TrialQueue) -> str:
        begun = [r for r in queue.records if r.role != "encoder" and r.started >= self._started]
        if all(record.state == "running" for record in begun):
            return "time left: not known yet"
        trained = sum(record.epochs for record in begun)
        each = (clock.time() - begun[0].started) / max(1, trained)
        spent, most = queue.budget.spent.get("max_hours", (0.0, math.inf))
        seconds = round(min(each * epochs_left(queue), max(0.0, 3600 * (most - spent))))
        bound = "at most" if queue.may_end_early else "about"
        return f"{bound} {seconds // 60}:{seconds % 60:02d} left"


def _states(queue: TrialQueue) -> Counter[str]:
    return Counter(record.state for record in queue.records)


def _epochs(queue: TrialQueue) -> int:
    return sum(record.epochs for record in queue.records)


def _budgets(queue: TrialQueue) -> list[str]:
    found = [
        f"{format_value(round(spent, 2))}/{format_value(most)} {budget_unit(key)}"
        for key, (spent, most) in queue.budget.spent.items()
    ]
    if queue.ended_by == "sampler":
        return [*found, "search ended, as no gain is expected"]
    return [*found, *([f"search ended by {queue.ended_by}"] if queue.ended_by else [])]


def _expectation(queue: TrialQueue) -> list[str]:
    proposal = queue.latest_proposal
    if proposal is None or not proposal.least:
        return []
    return [
        f"next trial: expected gain {proposal.gain:.4f}, the search ends below {proposal.least:.4f}"
    ]


def epochs_left(queue: TrialQueue) -> float:
    """Expected number of remaining epochs, without those of encoders.

    Trials of the search are expected to have the mean length of those that have ended. The baseline
    and the finalists run to their end.
    """
    whole = queue.plan.epochs
    ended = [
        record.epochs
        for record in queue.records
        if record.state != "running" and record.role not in NEVER_STOPPED
    ]
    usual = fmean(ended) / whole if ended else 1.0

    def expected(record: TrialRecord) -> float:
        share = 1.0 if record.role in NEVER_STOPPED else usual
        return share * (whole - record.epochs)

    left = sum(
        expected(record)
        for record in queue.records
        if record.state == "running" and record.role != "encoder"
    )
    finals = queue.finals_left
    others = max(0, queue.planned - len(queue.records) - finals)
    spent, most = queue.budget.spent.get("max_epochs", (0, math.inf))
    return min(left + whole * (finals + usual * others), max(0, most - spent))
