"""Reference models in the leaderboard."""

import pytest

from sweeps.results.explanation import result_of
from sweeps.results.judgement import Judgement
from sweeps.results.reference import ReferenceResult, reference_rows, reference_warnings
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.terminal.answers import leaderboard_table
from tests.builders import make_sweep, ranked, shown, trial

GOOD = ReferenceResult("gradient boosting", {"test_error": 0.1, "test_ece": 0.03}, 2_000)


def ranking(error: float) -> Ranking:
    metrics = {"val_error": error, "test_error": error}
    return ranked([trial(0, "cross_entropy", {}, role="baseline", **metrics)])


@pytest.mark.parametrize(
    ("error", "warns"), [(0.3, True), (0.125, True), (0.11, False), (0.05, False)]
)
def test_a_clearly_worse_network_is_warned_about(error: float, warns: bool) -> None:
    found = reference_warnings(ranking(error), [GOOD])
    assert bool(found) == warns
    if warns:
        assert f"its test error is {error:.3f}" in found[0]
        assert "gradient boosting 0.100" in found[0]


def test_the_best_reference_counts_and_few_samples_show_little() -> None:
    poor = ReferenceResult("logistic regression", {"test_error": 0.4}, 2_000)
    assert "worse than gradient boosting" in reference_warnings(ranking(0.3), [poor, GOOD])[0]
    few = ReferenceResult("gradient boosting", {"test_error": 0.1}, 20)
    assert reference_warnings(ranking(0.3), [few]) == []
    assert reference_warnings(ranking(0.3), []) == []


def test_references_are_rows_below_the_leaderboard() -> None:
    found = result_of(ranking(0.2), Plan(make_sweep()), Judgement(references=(GOOD,)))
    assert [row.note for row in found.rows][-1] == "reference"
    assert found.rows[-1].value("test_error") == 0.1
    assert found.to_json()["references"] == [
        {"name": GOOD.name, "outcome": GOOD.outcome, "test_samples": 2_000}
    ]
    assert "gradient" in shown(leaderboard_table(reference_rows([GOOD], "val_ece"), "val_ece"))
