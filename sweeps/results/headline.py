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
    text = (
        f"On the test split the confidence of {words_of(chosen)} is off by {100 * value:.1f} "
        "percentage points on average"
        f"{interval_words(chosen, MetricName('ece', 'test'), percent=True)}"
    )
    if baseline is not None and baseline != chosen:
        ece = (MetricName("ece", "test", scaled) for scaled in (False, True))
        plain, scaled = (100 * baseline.mean(name) for name in ece)
        text += f"; that of cross-entropy by {plain:.1f}, with a temperature by {scaled:.1f}"
    return text + "."


def interval_words(candidate: Candidate, name: MetricName, *, percent: bool = False) -> str:
    """`` (95% interval 0.0123 to 0.0234 over 57 groups)`` of a metric on the test split.

    A measured calibration error is biased upwards, so it may lie above its own interval.
    """
    over = over_groups(candidate.mean(groups_name("test")))
    low, high = candidate.interval(name)
    if math.isnan(low):
        return f" (no interval{over})" if over else ""
    ends = f"{100 * low:.1f} to {100 * high:.1f}" if percent else f"{low:.4f} to {high:.4f}"
    return f" (95% interval {ends}{over})"


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
