"""Progress of a running sweep, on a terminal and elsewhere."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sweeps.search.plan import Plan
from sweeps.search.trial_queue import TrialQueue
from sweeps.terminal import progress as module
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from tests.builders import make_sweep, trial


@pytest.fixture
def queue() -> TrialQueue:
    sweep = make_sweep("shown", losses=["focal"], training={"epochs": 2}, search={"trials": 6})
    queue = TrialQueue(Plan(sweep), lambda record: None, num_classes=10)
    for nll, error in ((0.5, 0.1), (0.4, 0.1), (0.3, 0.9)):
        record = queue.next()
        assert record is not None
        for epoch in (1, 2):
            entry = trial(0, epochs=epoch, val_ece=nll / 10, val_error=error).outcome
            queue.result(record.number, entry)
        queue.end(record.number, "finished")
    running = queue.next()
    assert running is not None
    queue.result(running.number, trial(0, epochs=1).outcome)
    return queue


def plain(text: io.StringIO) -> Console:
    return plain_console(file=text, width=200)


def test_without_a_terminal_progress_is_printed_as_lines(queue: TrialQueue) -> None:
    text = io.StringIO()
    with Progress(plain(text)) as progress:
        progress.stage("Loading [data/x]")
        progress.follow(queue)
        progress.tick()
        progress.tick()  # too soon for another line
        begun = queue.next()
        assert begun is not None
        queue.end(begun.number, "failed", "diverged")
    first, second, last = text.getvalue().splitlines()
    assert first == "Loading [data/x] ..."
    planned = queue.planned
    assert second.startswith(f"3/{planned} trials · 1 running · 0 stopped early · best so far: ")
    # The last of the three has the lowest ECE, but is outside the guard.
    assert f"{queue.records[1].label}, val_ece 0.0400" in second
    assert second.endswith("time left: not known yet")  # no trial has started since
    assert last.startswith(f"4/{planned} trials · 1 running · 0 stopped early · 1 failed · ")
    assert re.search(r"about \d+:\d\d left$", last)


def test_progress_shows_speed_and_reasons_for_the_best(queue: TrialQueue) -> None:
    text = io.StringIO()
    with Progress(plain(text)) as progress:
        progress.follow(queue)
        queue.result(3, trial(0, epochs=2).outcome)
    (line,) = text.getvalue().splitlines()
    assert re.search(r" · [\d.]+ epochs/(s|min|h) · best so far: ", line)
    assert "(0.0100 below cross_entropy; error +0.0000, guard 0.01; 1 lower left out: " in line


def test_at_80_columns_no_line_is_longer_and_nothing_is_cut(queue: TrialQueue) -> None:
    text = io.StringIO()
    console = Console(file=text, width=80, force_terminal=True, color_system=None)
    progress = Progress(console)
    progress.follow(queue)
    console.print(progress._render())
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert "1 lower left out: error too high" in " ".join(line.strip() for line in lines)
    assert "\x1b" not in text.getvalue()


def test_on_a_terminal_the_running_trials_are_shown(queue: TrialQueue) -> None:
    text = io.StringIO()
    console = Console(file=text, width=100, force_terminal=True, legacy_windows=False)
    with Progress(console) as progress:
        progress.follow(queue)
        console.print(progress._render())
    shown = text.getvalue()
    assert f"3/{queue.planned} trials" in shown
    assert f"{queue.records[3].label}: epoch 1/2" in shown
    assert "best so far" in shown


def test_what_is_spent_of_each_budget_is_shown_and_which_ended_the_search() -> None:
    text = io.StringIO()
    search = {"trials": 9, "max_epochs": 6, "max_hours": 0.5}
    sweep = make_sweep("shown", training={"epochs": 2}, search=search, selection={"seeds": 1})
    queue = TrialQueue(Plan(sweep), lambda record: None, num_classes=10)
    with Progress(plain(text)) as progress:
        progress.follow(queue)
        while (record := queue.next()) is not None:
            queue.result(record.number, trial(0, epochs=2).outcome)
            queue.end(record.number, "finished")
    (line,) = text.getvalue().splitlines()
    assert line.startswith("2/2 trials · 0 running · 0 stopped early · ")
    assert " · 0/0.5 hours · 4/6 epochs · search ended by max_epochs · best so far" in line


def test_a_guided_search_shows_what_it_expects_and_a_bound_of_the_time() -> None:
    text = io.StringIO()
    sweep = make_sweep("shown", training={"epochs": 1}, search={"sampler": "guided"})
    queue = TrialQueue(Plan(sweep), lambda record: None, num_classes=10)
    with Progress(plain(text)) as progress:
        progress.follow(queue)
        for _ in range(2):
            record = queue.next()
            assert record is not None
            queue.result(record.number, trial(0, temperature=1.5, val_ece=0.1).outcome)
            queue.end(record.number, "finished")
    (line,) = text.getvalue().splitlines()
    assert re.search(r" · next trial: expected gain 0\.\d+, the search ends below 0\.0\d+ · ", line)
    assert re.search(r" · at most \d+:\d\d left$", line)


def test_a_guided_search_says_that_it_ended() -> None:
    text = io.StringIO()
    sweep = make_sweep("shown", search={"sampler": "guided"}, selection={"seeds": 0})
    queue = TrialQueue(Plan(sweep), lambda record: None, num_classes=10)
    with Progress(plain(text)) as progress:
        progress.follow(queue)
        while (record := queue.next()) is not None:
            queue.result(record.number, trial(0, temperature=1.0, val_ece=0.01).outcome)
            queue.end(record.number, "finished")
    (line,) = text.getvalue().splitlines()
    assert " · search ended, as no gain is expected · best so far" in line


def test_an_error_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text, moments = io.StringIO(), iter((1000.0, 1029.0, 1031.0))
    with Progress(plain(text)) as progress:
        monkeypatch.setattr(module.time, "monotonic", lambda: next(moments))
        for _ in range(3):
            progress.fault("/data: No space left on device")
    assert text.getvalue() == "/data: No space left on device; waiting\n" * 2


def test_no_time_estimate_before_a_trial_has_ended(tmp_path: Path) -> None:
    text = io.StringIO()
    queue = TrialQueue(Plan(make_sweep("begun")), lambda record: None, num_classes=10)
    with Progress(plain(text)) as progress:
        progress.follow(queue)
        queue.next()
    (line,) = text.getvalue().splitlines()
    assert "best so far: none has finished yet" in line
    assert line.endswith("time left: not known yet")


def test_external_text_is_not_markup() -> None:
    text = io.StringIO()
    with Progress(Console(file=text, width=200)) as progress:  # console with markup enabled
        progress.stage("Loading [/data/x]")
        progress.notice("gloo: [/data/x] has gone, [old] stays")
        progress.fault("the storage [/data/x] is away")
    assert text.getvalue().splitlines() == [
        "Loading [/data/x] ...",
        "gloo: [/data/x] has gone, [old] stays",
        "the storage [/data/x] is away; waiting",
    ]


def test_a_notebook_gets_one_table_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Output:
        def update(self, html: Any) -> None:
            shown.append(html.data)

    def display(html: Any, display_id: bool) -> Output:
        assert display_id
        shown.append(html.data)
        return Output()

    monkeypatch.setattr("IPython.display.display", display)
    console = Console(file=io.StringIO(), force_jupyter=True)
    with Progress(console) as progress:
        progress.stage("Starting <Ray>")
        progress.stage("Loading <data>")
    assert "starting" in shown[0]
    assert "Loading &lt;data&gt;" in shown[-1]
    assert console.file.getvalue() == ""
