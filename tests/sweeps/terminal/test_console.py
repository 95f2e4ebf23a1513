"""External text that looks like markup is printed literally."""

import builtins
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import sweeps
from sweeps.commands import printing
from sweeps.jobs.jobs import Job, Said
from sweeps.jobs.tables import job_facts, jobs_table
from sweeps.results.explanation import result_of
from sweeps.results.leaderboard import leaderboard
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.course import EndedSweep
from sweeps.terminal.answers import leaderboard_table, verdict_table
from sweeps.terminal.console import plain_console
from sweeps.terminal.plan_tables import plan_tables
from sweeps.terminal.progress import Progress
from tests.builders import baseline, compared, make_sweep, shown, trial

HOSTILE = "[/data/x] [old] [bold red]b[/] :x: \\[y]"


def flat(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_tables() -> None:
    sweep = make_sweep(
        dataset={"name": "digits", "title": "birds"},
        losses=[{"name": "focal", "space": {"gamma": {"choices": [HOSTILE]}}}, "[old]"],
    )
    failed = trial(1, "[old]", {"a": HOSTILE}, state="failed", reason=HOSTILE, history=[])
    rows = leaderboard(Ranking([baseline(), failed], rule_of(sweep)))
    job = Job("id", "birds", HOSTILE, HOSTILE, "FAILED", HOSTILE, 1.0, 2.0)
    board = leaderboard_table(rows, sweep.search.objective)
    assert flat(shown(board, width=400)).count(flat(HOSTILE)) == 2
    assert "[old]" in shown(board) and "birds" in shown(jobs_table([job]))
    assert (
        flat(shown(job_facts(job, Said(HOSTILE, "last", HOSTILE), "page"), width=400)).count(
            flat(HOSTILE)
        )
        == 5
    )
    assert flat(HOSTILE) in flat(shown(*plan_tables(Plan(sweep)), width=400))


@pytest.mark.parametrize("metric", ["ece", "adaptive_ece", "nll_calibration"])
def test_verdicts_fit_into_80_columns(metric: str) -> None:
    names = "focal_calibration", "cross_entropy + temperature scaling"
    rest: tuple[Any, ...] = (-0.0634, -0.1337, -0.0037, "not supported", 2, "test", 4)
    ece, each = (compared(*names, name, *rest) for name in ("ece", metric))
    lines = shown(verdict_table([ece, each]), width=80).splitlines()
    assert lines[2].split() == ["focal_calibration", "vs"]
    for line in lines[3:5]:
        assert line.split()[:3] == ["cross_entropy,", "scaled", "test"]
        assert line.rstrip().endswith("-0.0634 [-0.1337, -0.0037] not supported")
    heading = {"ece": "ECE", "adaptive_ece": "adaptive", "nll_calibration": "avoidable"}[metric]
    assert heading in lines[4]
    assert ("NLL" in "".join(lines[5:])) == (metric == "nll_calibration")


@pytest.mark.parametrize("terminal", [False, True])
def test_progress(terminal: bool) -> None:
    out = io.StringIO()
    with Progress(Console(file=out, width=200, force_terminal=terminal)) as progress:
        progress.stage(f"Loading {HOSTILE}")
        progress.fault(f"gloo: {HOSTILE}")
        if progress._live is not None:
            progress._live.refresh()
    assert flat(f"Loading {HOSTILE}") in flat(out.getvalue())
    assert flat(f"gloo: {HOSTILE}; waiting") in flat(out.getvalue())


def test_the_end_of_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = make_sweep(losses=["focal"])
    lost: dict[str, Any] = {"state": "failed", "reason": HOSTILE, "history": []}
    records = [baseline(**lost), trial(1, **lost), trial(2)]
    summary = result_of(Ranking(records, rule_of(sweep)), Plan(sweep))
    result = EndedSweep(records, summary, 1, HOSTILE, "http://h/[/x]")
    printing.print_answer(summary)
    printing.print_places(result, "small", "/[old]")
    printed = flat(capsys.readouterr().out)
    assert flat(f"Failed: 2 of 3 trials (2 × {HOSTILE})") in printed
    assert f"lacks1trial:{flat(HOSTILE)}" in printed
    assert printed.count("--storage'/[old]'") == 5
    assert "http://h/[/x]" in printed


def test_in_a_notebook_output_to_a_file_goes_to_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class ZMQInteractiveShell:
        """The shell class of a notebook kernel, as libraries detect it."""

    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    text = io.StringIO()
    plain_console(file=text).print("the answer")
    assert text.getvalue() == "the answer\n"
    assert capsys.readouterr().out == ""


def test_nothing_else_prints_by_a_console_of_its_own() -> None:
    own = re.compile(r"\bConsole\(|from_markup|rich\.print|from rich import")
    places = [
        path.name
        for path in Path(sweeps.__file__).parent.rglob("*.py")
        if own.search(path.read_text())
    ]
    assert places == ["console.py"]
