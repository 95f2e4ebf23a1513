"""Reference models in the leaderboard."""

from sweeps.results.evidence import Evidence
from sweeps.results.explanation import result_of
from sweeps.results.reference import ReferenceResult, deliverable, reference_rows
from sweeps.results.verdicts import Arm, Comparison, Verdict
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.terminal.answers import leaderboard_table
from tests.builders import make_sweep, ranked, shown, trial

GOOD = ReferenceResult("gradient boosting", {"test_error": 0.1, "test_ece": 0.03}, 2_000)


def ranking(error: float) -> Ranking:
    metrics = {"val_error": error, "test_error": error}
    return ranked([trial(0, "cross_entropy", {}, role="baseline", **metrics)])


def compared(low: float, high: float, verdict: Verdict) -> Comparison:
    theirs = "cross-entropy with a temperature"
    return Comparison(
        ours=Arm(GOOD.name),
        theirs=Arm(theirs),
        metric="nll",
        value=-0.05,
        low=low,
        high=high,
        verdict=verdict,
        seeds=0,
        split="test",
    )


def test_a_reference_is_said_first_if_it_is_shown_to_be_better() -> None:
    better = compared(-0.07, -0.03, "supported")
    plan = Plan(make_sweep())
    found = result_of(ranking(0.2), plan, Evidence(against_reference=better)).recommended
    assert found is not None
    assert found.text.startswith(
        "Gradient boosting is better than cross-entropy with a temperature by 0.0500 NLL [0.0300, "
        "0.0700] on the test split: use it (`calsweep export NAME --reference`). Of the networks: "
        "cross-entropy"
    )
    unclear = compared(-0.11, 0.01, "not supported")
    found = result_of(ranking(0.2), plan, Evidence(against_reference=unclear)).recommended
    assert found is not None and found.text.startswith("Recommended: cross-entropy")


def test_the_best_on_the_validation_split_is_handed_out() -> None:
    first, second, unscored = (
        ReferenceResult(str(nll), {"val_nll_scaled": nll, "test_nll_scaled": 1 - nll}, 9, number)
        for nll, number in ((0.5, -1), (0.4, -2), (0.3, 0))
    )
    assert deliverable([first, second, unscored]) == second
    assert deliverable([unscored]) is None


def test_references_are_rows_below_the_leaderboard() -> None:
    found = result_of(ranking(0.2), Plan(make_sweep()), Evidence(references=(GOOD,)))
    assert [row.note for row in found.rows][-1] == "reference"
    assert found.rows[-1].value("test_error") == 0.1
    assert found.to_json()["references"] == (
        {"name": GOOD.name, "outcome": GOOD.outcome, "test_samples": 2_000, "number": 0},
    )
    assert "gradient" in shown(leaderboard_table(reference_rows([GOOD], "val_ece"), "val_ece"))
