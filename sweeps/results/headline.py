"""The result in words for readers who do not know calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sweeps.messages.formatting import over_groups
from sweeps.results.evidence import EnsembleEvidence
from sweeps.results.recommendation import Recommendation, words_of
from sweeps.search.ranking import Candidate, Ranking
from trainables.contract.metric_names import MetricName, groups_name


@dataclass(frozen=True)
class Headline:
    """The recommendation, its reason and the facts around it, one sentence or two each."""

    advice: str
    facts: tuple[str, ...]


def headline(
    ranking: Ranking,
    recommended: Recommendation | None,
    ensemble: EnsembleEvidence | None = None,
) -> Headline:
    """The result of a sweep so far."""
    chosen, baseline = ranking.chosen, ranking.baseline
    if chosen is None or recommended is None:
        return Headline(
            "There is nothing to recommend yet: no finished setting has a low enough error.",
            (),
        )
    facts = [recommended.reason, _how_far_off(chosen, baseline), _how_often_wrong(chosen, baseline)]
    if recommended.kind != "ensemble" and ensemble is not None:
        facts.append(ensemble.advice)
    return Headline(recommended.advice, tuple(filter(None, facts)))


def _how_far_off(chosen: Candidate, baseline: Candidate | None) -> str:
    value = chosen.mean("test_ece")
    if math.isnan(value):
        return ""
    low, high = chosen.interval(MetricName("ece", "test"))
    over = over_groups(chosen.mean(groups_name("test")))
    ends = f" (95% interval {100 * low:.1f} to {100 * high:.1f}{over})"
    ends = ends if not math.isnan(low) else f" (no interval{over})" if over else ""
    text = (
        f"On the test split the confidence of {words_of(chosen)} is off by {100 * value:.1f} "
        f"percentage points on average{ends}"
    )
    if baseline is not None and baseline != chosen:
        ece = (MetricName("ece", "test", scaled) for scaled in (False, True))
        plain, scaled = (100 * baseline.mean(name) for name in ece)
        text += f"; that of cross-entropy by {plain:.1f}, with a temperature by {scaled:.1f}"
    return text + "."


def _how_often_wrong(chosen: Candidate, baseline: Candidate | None) -> str:
    value = chosen.mean("test_error")
    if math.isnan(value):
        return ""
    text = f"It misclassifies {_of_100(value)} of 100 test samples"
    if baseline is not None and baseline != chosen:
        text += f", cross-entropy {_of_100(baseline.mean('test_error'))}"
    return text + "."


def _of_100(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")
