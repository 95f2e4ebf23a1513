"""The reasons for the selected setting, in words."""

from typing import Any

from sweeps.results.columns import LeaderboardRow
from sweeps.results.evidence import NOT_YET, EnsembleEvidence, Evidence
from sweeps.results.explanation import explain_choice, failure_summary, reasons, result_of
from sweeps.results.leaderboard import leaderboard
from sweeps.results.recommendation import recommend
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.sweep_file.sections.training import TrainingSection
from tests.builders import SCALED, baseline, compared, finalist, make_sweep, ranked, trial


def notes_by_loss(ranking: Ranking) -> dict[str, str]:
    return {row.loss: row.note for row in leaderboard(ranking)}


def test_the_reasons_end_with_what_follows_from_the_verdicts() -> None:
    records = [baseline(val_ece=0.05), trial(1, "focal", val_ece=0.03)]
    against = compared(
        "focal", f"cross_entropy{SCALED}", "ece", -0.02, -0.05, 0.01, "not supported", 2
    )
    row = LeaderboardRow("ensemble", "ensemble", "3 networks", {})
    several = EnsembleEvidence(row, (), 3, 1.0, 0.1, why=("Of the ensemble.",))
    evidence = Evidence((against,), ensemble=several)
    ranking = ranked(records)
    lines = reasons(ranking, TrainingSection(), evidence)
    assert "The cross-entropy baseline has 0.0500, validation error 0.1000" in lines[1]
    recommended = recommend(ranking, evidence)
    assert recommended is not None and "is not shown to beat it" in recommended.text
    assert not any("shown to beat" in line for line in lines)  # it is said once
    assert lines[-1] == "Of the ensemble."


def test_what_a_calibrated_model_would_show_stands_beside() -> None:
    known = {"val_ece_calibrated": 0.019, "val_ece_calibrated_high": 0.027}
    records = [baseline(val_ece=0.05), trial(1, "focal", val_ece=0.03, **known)]
    lines = explain_choice(ranked(records))
    assert any("would show 0.0190, up to 0.0270" in line for line in lines)


def test_an_epoch_selected_by_validation_makes_its_values_optimistic() -> None:
    ranking = ranked([baseline(val_ece=0.05), trial(1, "focal", val_ece=0.03)])
    *_, note, _ = explain_choice(ranking, TrainingSection(keep="val_ece"))
    assert "its epoch with the lowest val_ece" in note and "optimistic" in note
    assert not any("optimistic" in line for line in explain_choice(ranking))


def test_a_selected_baseline_is_not_compared_with_itself() -> None:
    records = [baseline(val_ece=0.01), trial(1, "focal", val_ece=0.03)]
    lines = explain_choice(ranked(records))
    assert len(lines) == 2
    assert "Selected: cross_entropy" in lines[0]
    assert notes_by_loss(ranked(records))["cross_entropy"] == "selected"


def test_without_a_baseline_the_lowest_error_guards_and_that_is_reported() -> None:
    failed = baseline(state="failed", reason="diverged", history=[])
    constant = trial(1, "ecp", val_ece=0.0, val_error=0.9)
    records = [failed, constant, trial(2, "focal", val_ece=0.04)]
    first = explain_choice(ranked(records))[0]
    assert "Selected: focal" in first
    assert "validation error is at most 0.01 above the lowest" in first
    assert "the cross-entropy baseline did not finish (diverged)" in first
    assert notes_by_loss(ranked(records))["ecp"] == "error > lowest + 0.01"


def test_constraints_and_what_they_keep_out_are_reported() -> None:
    search = {"constraints": {"val_nll": {"above_baseline": 0.02}, "val_auroc": {"at_least": 0.9}}}
    records = [
        baseline(val_auroc=0.95),
        trial(1, "focal", val_ece=0.04, val_auroc=0.95),
        trial(2, "mbls", val_ece=0.01, val_auroc=0.95, val_nll=0.2),
        trial(3, "brier", val_ece=0.01, val_auroc=0.8),
    ]
    ranking = ranked(records, search=search)
    notes = notes_by_loss(ranking)
    assert notes["mbls"] == "NLL > baseline + 0.02"
    assert notes["brier"] == "AUROC < 0.9"
    first, second = explain_choice(ranking)[:2]
    assert "Selected: focal" in first
    assert first.endswith("val_nll at most 0.02 above cross-entropy's, val_auroc at least 0.9.")
    assert second == (
        "Infeasible: 2 of 4 settings; 1 by val_nll at most 0.02 above cross-entropy's, "
        "1 by val_auroc at least 0.9."
    )


def test_of_several_objectives_the_front_is_the_answer() -> None:
    search = {"objective": ["val_ece", "val_error"], "guard": 0.1}
    records = [
        baseline(val_ece=0.04, val_error=0.02),
        trial(1, "focal", {"gamma": 3.0}, val_ece=0.01, val_error=0.1),
        trial(2, "mbls", val_ece=0.05, val_error=0.05),
    ]
    found = result_of(ranked(records, search=search), Plan(make_sweep(search=search)))
    assert [(each.loss, each.objectives["val_error"]) for each in found.front or ()] == [
        ("focal", 0.1),
        ("cross_entropy", 0.02),
    ]
    assert (
        "Pareto front of val_ece and val_error: 2 settings that no other setting beats in every "
        "objective." in (found.why)
    )
    assert "On the front: focal γ=3 – val_ece 0.0100, val_error 0.1000." in found.why
    assert result_of(ranked(records), Plan(make_sweep())).front is None


def test_no_choice_is_reported() -> None:
    stopped = [baseline(state="failed"), trial(1, "focal", epochs=1, state="stopped")]
    (line,) = explain_choice(ranked(stopped, search={"guard": 0.02}))
    assert "No setting is selected" in line
    assert result_of(ranked(stopped), Plan(make_sweep())).selected is None


def test_reasons_of_failure_are_counted() -> None:
    reasons = ["diverged", "out of memory", "diverged"]
    failed = [trial(i, "focal", state="failed", reason=r) for i, r in enumerate(reasons)]
    assert failure_summary(failed) == "  2 × diverged\n  1 × out of memory"


def test_stopped_trials_are_counted_with_their_reasons() -> None:
    reason = "val_nll too high after epoch 1"
    records = [baseline(), *(trial(n, "focal", state="stopped", reason=reason) for n in (1, 2))]
    expected = f"better there: 2 of 3 trials (2 × {reason})."
    assert any(
        line.endswith(expected) for line in reasons(ranked(records), TrainingSection(), NOT_YET)
    )


def test_failed_trials_and_seeds_are_counted_with_their_reasons() -> None:
    first, other = baseline(val_ece=0.05), trial(1, "focal", val_ece=0.03)
    failed: dict[str, Any] = {"state": "failed", "reason": "diverged", "history": []}
    records = [
        first,
        other,
        trial(2, "mbls", **{**failed, "reason": "out of memory"}),
        finalist(3, other, 1, val_ece=0.03),
        finalist(4, other, 2, **failed),
        finalist(5, first, 1, val_ece=0.05),
    ]
    lines = reasons(ranked(records), TrainingSection(), NOT_YET)
    assert (
        "Failed: 2 of 6 trials, 1 of the 3 with fresh seeds (1 × out of memory; 1 × diverged)."
        in lines
    )
    assert lines[0].startswith("Selected: focal γ=1 – the lowest val_ece, 0.0300 (mean over 1 fr")
    assert not any(
        line.startswith("Failed")
        for line in reasons(ranked(records[:2]), TrainingSection(), NOT_YET)
    )


def test_if_all_fresh_seeds_fail_cross_entropy_is_recommended() -> None:
    first, other = baseline(val_ece=0.05), trial(1, "focal", val_ece=0.03)
    failed: dict[str, Any] = {"state": "failed", "reason": "diverged", "history": []}
    records = [first, other, finalist(2, other, 1, **failed), finalist(3, first, 1, **failed)]
    better = compared("focal", f"cross_entropy{SCALED}", "ece", -0.02, -0.05, -0.01, "supported", 1)
    found = result_of(ranked(records), Plan(make_sweep()), Evidence((better,)))
    assert "(one seed; no trial of it with a fresh seed has finished)" in found.why[0]
    assert found.why[-1].startswith("Every trial with a fresh seed failed: find out why")
    assert found.verdict is None


def test_a_lower_mean_of_fewer_seeds_that_is_not_selected_is_explained() -> None:
    one, two = trial(1, "focal"), trial(2, "mbls")
    records = [
        baseline(val_ece=0.2),
        one,
        two,
        finalist(3, one, 1, val_ece=0.044),
        finalist(4, one, 2, state="failed", history=[]),
        finalist(5, two, 1, val_ece=0.03),
        finalist(6, two, 2, val_ece=0.06),
    ]
    lines = explain_choice(ranked(records))
    assert lines[0].startswith("Selected: mbls")
    assert lines[1] == (
        "focal γ=1 has 0.0440 with 1 fresh seed, which is not lower by more than the noise of "
        "fewer seeds."
    )


def test_results_on_evaluation_sets_are_reported_per_set() -> None:
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
        "Its confidence separates svhn from the test split with an AUROC of 0.9000, after "
        "temperature scaling 0.9100.",
    ]
