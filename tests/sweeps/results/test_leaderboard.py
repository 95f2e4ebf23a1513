"""The leaderboard and the reasons for the choice."""

import math
from typing import Any

import pytest

from sweeps.results.comparison import Comparison
from sweeps.results.explanation import answer, explain_choice, failure_summary
from sweeps.results.leaderboard import leaderboard
from sweeps.search.record import TrialRecord
from sweeps.terminal.answers import leaderboard_table
from tests.builders import baseline, make_sweep, ranked, shown, trial


def rows_by_loss(records: list[TrialRecord], **sections: Any) -> dict[str, dict[str, Any]]:
    return {row["loss"]: row for row in leaderboard(ranked(records, **sections))}


def test_the_leaderboard_has_one_row_per_loss_however_its_trials_ended() -> None:
    records = [
        baseline(val_ece=0.05),
        trial(1, "focal", val_ece=0.03, hyperparameters={"gamma": 3.0}),
        trial(2, "focal", val_ece=0.02, hyperparameters={"gamma": 5.0}),
        trial(3, "focal", epochs=1, state="stopped", val_ece=0.0),
        trial(4, "mbls", epochs=1, state="stopped", hyperparameters={"margin": 1.0}),
        trial(5, "mbls", epochs=3, state="stopped", hyperparameters={"margin": 2.0}),
        trial(6, "brier", state="failed", reason="diverged: logits", history=[]),
        trial(7, "ecp", val_ece=0.0, val_error=0.9),
    ]
    rows = rows_by_loss(records)
    assert list(rows) == ["focal", "cross_entropy", "ecp", "mbls", "brier"]
    assert {loss: row["note"] for loss, row in rows.items()} == {
        "focal": "chosen",
        "cross_entropy": "baseline",
        "ecp": "error > baseline + 0.01",
        "mbls": "stopped at epoch 3",
        "brier": "failed: diverged: logits",
    }
    assert rows["focal"]["hyperparameters"] == {"gamma": 5.0}
    assert rows["focal"]["trials"] == {"finished": 2, "stopped": 1}
    assert rows["focal"]["val_ece"] == 0.02
    assert rows["mbls"]["hyperparameters"] == {"margin": 2.0}
    assert math.isnan(rows["brier"]["test_ece"])
    text = shown(leaderboard_table(list(rows.values()), "val_ece"), width=80)
    assert max(map(len, text.splitlines())) <= 80
    for part in ("focal", "γ=5", ".0200", "chosen", "baseline", "1.50", "–"):
        assert part in text


def test_finalists_are_shown_by_the_mean_over_new_seeds() -> None:
    focal: dict[str, Any] = {"loss": "focal", "hyperparameters": {"gamma": 3.0}}
    records = [
        baseline(val_ece=0.05),
        trial(1, val_ece=0.01, test_ece=0.5, **focal),
        trial(2, val_ece=0.02, test_ece=0.1, role="finalist", seed=1, **focal),
        trial(3, val_ece=0.04, test_ece=0.2, role="finalist", seed=2, **focal),
    ]
    row = rows_by_loss(records)["focal"]
    assert (row["val_ece"], row["test_ece"]) == (pytest.approx(0.03), pytest.approx(0.15))
    assert row["seeds"] == 2
    first, *_, apart, last = explain_choice(ranked(records), adapt_share=0.3)
    assert apart.startswith("30% of the validation split is kept for what adapts to it")
    assert "Chosen: focal γ=3 – the lowest val_ece, 0.0300 (mean over 2 new seeds)" in first
    assert "at most 0.01 above cross-entropy's" in first
    assert (
        "ECE 0.1500 (in the long run 0.0000 to 0.1000, 95%), after temperature scaling 0.0500"
        in last
    )


def test_the_comparisons_are_told_after_the_baseline() -> None:
    records = [baseline(val_ece=0.05), trial(1, "focal", val_ece=0.03)]
    found = Comparison(
        "focal", "cross_entropy", "ece", -0.02, -0.03, -0.01, verdict="supported", seeds=2
    )
    lines = explain_choice(ranked(records), comparisons=[found])
    assert "The cross-entropy baseline has 0.0500, validation error 0.1000" in lines[1]
    assert "Better than cross_entropy? Yes, that is supported: ECE -0.0200" in lines[2]


def test_what_is_shown_and_judged_follows_the_objective() -> None:
    """By NLL 0.1 and 9.0 can be told apart, however much the intervals of their ECE overlap."""
    records = [baseline(val_nll=9.0), trial(1, "focal", val_nll=0.1, test_nll=0.2)]
    ranking = ranked(records, search={"objective": "val_nll"})
    lines = explain_choice(ranking)
    assert "the lowest val_nll, 0.1000" in lines[0]
    assert not any("overlap" in line for line in lines)
    assert "On the test split, which chose nothing: NLL 0.2000, after" in lines[-1]
    text = shown(leaderboard_table(leaderboard(ranking), "val_nll"))
    assert "NLL" in text
    assert "ECE" not in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("focal"))
    assert row[2:6] == [".1000", ".1000", ".1000", ".2000"]


def test_what_a_calibrated_model_would_show_stands_beside() -> None:
    known = {"val_ece_calibrated": 0.019, "val_ece_calibrated_high": 0.027}
    records = [baseline(val_ece=0.05), trial(1, "focal", val_ece=0.03, **known)]
    lines = explain_choice(ranked(records))
    assert any("would show 0.0190, up to 0.0270" in line for line in lines)


def test_a_chosen_baseline_is_not_compared_with_itself() -> None:
    records = [baseline(val_ece=0.01), trial(1, "focal", val_ece=0.03)]
    lines = explain_choice(ranked(records))
    assert len(lines) == 2
    assert "Chosen: cross_entropy" in lines[0]
    assert rows_by_loss(records)["cross_entropy"]["note"] == "chosen"


def test_without_a_baseline_the_lowest_error_guards_and_that_is_said() -> None:
    failed = baseline(state="failed", reason="diverged", history=[])
    constant = trial(1, "ecp", val_ece=0.0, val_error=0.9)
    records = [failed, constant, trial(2, "focal", val_ece=0.04)]
    first = explain_choice(ranked(records))[0]
    assert "Chosen: focal" in first
    assert "validation error is at most 0.01 above the lowest" in first
    assert "the cross-entropy baseline did not finish (diverged)" in first
    assert rows_by_loss(records)["ecp"]["note"] == "error > lowest + 0.01"


def test_constraints_and_what_they_keep_out_are_told() -> None:
    search = {"constraints": {"val_nll": {"above_baseline": 0.02}, "val_auroc": {"at_least": 0.9}}}
    records = [
        baseline(val_auroc=0.95),
        trial(1, "focal", val_ece=0.04, val_auroc=0.95),
        trial(2, "mbls", val_ece=0.01, val_auroc=0.95, val_nll=0.2),
        trial(3, "brier", val_ece=0.01, val_auroc=0.8),
    ]
    ranking = ranked(records, search=search)
    notes = {row["loss"]: row["note"] for row in leaderboard(ranking)}
    assert notes["mbls"] == "NLL > baseline + 0.02"
    assert notes["brier"] == "AUROC < 0.9"
    first, second = explain_choice(ranking)[:2]
    assert "Chosen: focal" in first
    assert first.endswith("val_nll at most 0.02 above cross-entropy's, val_auroc at least 0.9.")
    assert second == (
        "Infeasible: 2 of 4 settings; 1 for want of val_nll at most 0.02 above cross-entropy's, "
        "1 for want of val_auroc at least 0.9."
    )


def test_of_several_objectives_the_front_is_the_answer() -> None:
    search = {"objective": ["val_ece", "val_error"], "guard": 0.1}
    records = [
        baseline(val_ece=0.04, val_error=0.02),
        trial(1, "focal", {"gamma": 3.0}, val_ece=0.01, val_error=0.1),
        trial(2, "mbls", val_ece=0.05, val_error=0.05),
    ]
    found = answer(ranked(records, search=search), make_sweep(search=search))
    assert [(each["loss"], each["val_error"]) for each in found["front"]] == [
        ("focal", 0.1),
        ("cross_entropy", 0.02),
    ]
    assert (
        "Pareto front of val_ece and val_error: 2 settings that none beats in all of them."
        in (found["why"])
    )
    assert "On the front: focal γ=3 – val_ece 0.0100, val_error 0.1000." in found["why"]
    assert "front" not in answer(ranked(records), make_sweep())


def test_no_choice_is_told() -> None:
    stopped = [baseline(state="failed"), trial(1, "focal", epochs=1, state="stopped")]
    (line,) = explain_choice(ranked(stopped, search={"guard": 0.02}))
    assert "No setting is chosen" in line
    assert "chosen" not in answer(ranked(stopped), make_sweep())


def test_reasons_of_failure_are_counted() -> None:
    reasons = ["diverged", "out of memory", "diverged"]
    failed = [trial(i, "focal", state="failed", reason=r) for i, r in enumerate(reasons)]
    assert failure_summary(failed) == "  2 × diverged\n  1 × out of memory"


def test_what_became_of_the_choice_elsewhere_is_told_set_by_set() -> None:
    found = {
        "shift_cifar10_c_5_ece": 0.2,
        "shift_cifar10_c_5_ece_scaled": 0.1,
        "shift_cifar10_c_5_adaptive_ece": 0.3,
        "shift_cifar10_c_5_error": 0.4,
        "shift_hospital_b_ece": 0.21,
        "shift_hospital_b_ece_scaled": 0.11,
        "shift_hospital_b_error": 0.41,
        "ood_svhn_auroc": 0.9,
        "ood_svhn_auroc_scaled": 0.91,
        "ood_svhn_aupr_in": 0.8,
    }
    records = [
        baseline(val_ece=0.05),
        trial(1, val_ece=0.01, hyperparameters={"gamma": 3.0}),
        trial(2, role="finalist", seed=1, val_ece=0.01, hyperparameters={"gamma": 3.0}, **found),
    ]
    lines = explain_choice(ranked(records))[-3:]
    assert lines == [
        "On the shift set cifar10_c of severity 5: ECE 0.2000, after temperature scaling 0.1000, "
        "error 0.4000.",
        "On the shift set hospital_b: ECE 0.2100, after temperature scaling 0.1100, error 0.4100.",
        "By its confidence it tells svhn from the test split with an AUROC of 0.9000, after "
        "temperature scaling 0.9100.",
    ]
