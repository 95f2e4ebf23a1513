"""The result of a sweep in the terminal: one screen, and the whole."""

import io
from dataclasses import replace
from typing import Any

import pytest

from sweeps.results.columns import LeaderboardRow
from sweeps.results.evidence import EnsembleEvidence, Evidence
from sweeps.results.explanation import result_of
from sweeps.results.leaderboard import in_short
from sweeps.results.result import SweepResult
from sweeps.results.verdicts import Arm, Comparison
from sweeps.search.plan import Plan
from sweeps.terminal.answers import print_answer, print_whole_answer, verdict_table
from sweeps.terminal.console import plain_console
from tests.builders import SCALED, baseline, compared, make_sweep, ranked, trial

LOSSES = ("focal", "mbls", "dual_focal", "label_smoothing", "inverse_focal", "brier", "ecp", "mdca")


def against(theirs: str, metric: str = "ece", split: Any = "test") -> Comparison:
    return compared("focal", theirs, metric, -0.02, -0.05, 0.01, "not supported", 3, split, 4)


PLAIN, WITH_T = "cross_entropy", f"cross_entropy{SCALED}"
VERDICTS = (
    against(PLAIN, "nll_calibration"),
    *(against(theirs) for theirs in (PLAIN, WITH_T)),
    *(against(theirs, split="validation") for theirs in (PLAIN, WITH_T)),
)


def result(**further: Any) -> SweepResult:
    records = [baseline(val_ece=0.05)]
    records += [trial(n, loss, val_ece=0.02 + n / 1000) for n, loss in enumerate(LOSSES, start=1)]
    failed = trial(20, "crl", state="failed", reason="loss is NaN", history=[])
    ends = ("The search ended after 9 settings: no other setting was expected to be better.",)
    ranking, evidence = ranked([*records, failed]), Evidence(VERDICTS, ends=ends, **further)
    return result_of(ranking, Plan(make_sweep()), evidence)


def test_the_result_fits_one_screen() -> None:
    console = plain_console(width=80, file=(text := io.StringIO()))
    print_answer(console, result())
    lines = text.getvalue().splitlines()
    assert len(lines) <= 28, len(lines)
    assert lines[0].startswith("★ Recommended: cross-entropy with a temperature")
    (starred,) = (line for line in lines[1:] if line.startswith("★"))
    assert starred.startswith("★ cross_entropy ") and starred.split()[-1] == "baseline"
    assert sum("not supported" in line for line in lines[3:]) == 2
    assert "and 4 further losses" in lines
    assert any(line.startswith("Failed: 1 of 10 trials (1 × loss is NaN)") for line in lines)
    assert any(line.startswith("The search ended after 9 settings") for line in lines)


def test_the_whole_has_every_loss_and_verdict() -> None:
    console = plain_console(width=80, file=(text := io.StringIO()))
    print_whole_answer(console, result())
    said = text.getvalue()
    assert all(loss in said for loss in LOSSES)
    assert said.count("\n cross_entropy") == len(VERDICTS)
    assert "Selected: focal" in said and "Intervals are over samples and 3 seeds." in said


@pytest.mark.parametrize("groups", [None, 5, 184])
def test_verdicts_are_whole_words_in_80_columns(groups: int | None) -> None:
    long = replace(
        VERDICTS[0], ours=Arm("ensemble"), theirs=Arm("the mean of 4 seeds of cross_entropy", True)
    )
    rows = [replace(each, groups=groups) for each in (*VERDICTS, long)]
    console = plain_console(width=80, file=(text := io.StringIO()))
    console.print(verdict_table(rows))
    assert text.getvalue().count("not supported") == len(rows)
    assert groups is None or text.getvalue().count(f", {groups} ") == len(rows)


def test_the_first_verdicts_are_against_cross_entropy_plain_and_scaled() -> None:
    found = [(str(each.theirs), each.metric, each.split) for each in result().leading_comparisons]
    assert found == [(PLAIN, "nll_calibration", "test"), (WITH_T, "ece", "test")]


def test_a_recommended_ensemble_has_its_own_verdict() -> None:
    better = replace(against(PLAIN, "nll"), ours=Arm("ensemble"), verdict="supported")
    row = LeaderboardRow("ensemble", "ensemble", "3 networks", {})
    ensemble = EnsembleEvidence(row, (), 3, 1.0, 0.1, comparisons=(better,), offered="ensemble")
    found = result(ensemble=ensemble)
    assert found.leading_comparisons[-1].ours == better.ours


@pytest.mark.parametrize("most", [2, 4])
def test_selected_and_baseline_are_always_among_the_first_rows(most: int) -> None:
    rows = result().rows
    notes = [row.note for row in in_short(rows, most)]
    assert {"selected", "baseline"} <= set(notes)
    assert len(notes) == most


def test_without_a_recommendation_the_reasons_are_printed() -> None:
    ranking = ranked([baseline(state="failed", reason="loss is NaN", history=[])])
    found = result_of(ranking, Plan(make_sweep()))
    console = plain_console(width=80, file=(text := io.StringIO()))
    print_answer(console, found)
    assert "No setting is selected" in text.getvalue()
