"""The headline of the result: the recommendation, and the facts behind it."""

from sweeps.results.columns import LeaderboardRow
from sweeps.results.evidence import NOT_YET, EnsembleEvidence
from sweeps.results.headline import headline
from sweeps.results.recommendation import recommend
from tests.builders import baseline, ranked, trial

RECORDS = [
    baseline(val_ece=0.05, temperature=1.62, test_ece=0.061, test_ece_scaled=0.033),
    trial(1, val_ece=0.02, test_ece=0.021, test_ece_low=0.0, test_ece_high=0.04, test_error=0.125),
]


def test_it_is_the_recommendation_with_its_facts() -> None:
    ranking = ranked(RECORDS)
    recommended = recommend(ranking, NOT_YET)
    assert recommended is not None
    row = LeaderboardRow("seeds", "cross_entropy × 5", "5 networks", {})
    several = EnsembleEvidence(row, (), 5, 1.0, 0.1, advice="For a lower NLL average five.")
    found = headline(ranking, recommended, several)
    assert found.advice == recommended.advice
    reason, off, wrong, on_ensemble = found.facts
    assert on_ensemble == "For a lower NLL average five."
    assert reason == recommended.reason
    assert "off by 2.1 percentage points on average (95% interval 0.0 to 4.0)" in off
    assert "that of cross-entropy by 6.1, with a temperature by 3.3" in off
    assert wrong == "It misclassifies 12.5 of 100 test samples, cross-entropy 10."


def test_without_a_baseline_or_a_choice() -> None:
    ranking = ranked(RECORDS[1:])
    facts = headline(ranking, recommend(ranking, NOT_YET)).facts
    assert "which did not finish" in facts[0]
    assert "cross-entropy" not in " ".join(facts[1:])
    ranking = ranked([baseline(state="failed", history=[])])
    nothing = headline(ranking, recommend(ranking, NOT_YET))
    assert nothing.advice.startswith("There is nothing to recommend yet")
    assert nothing.facts == ()
