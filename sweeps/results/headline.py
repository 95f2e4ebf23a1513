"""The result in words for readers who do not know calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.evidence.comparison import UNCHANGED_BY_TEMPERATURE, Comparison, verdict
from sweeps.messages.formatting import (
    format_hyperparameters,
    format_loss,
    format_temperature,
    objective_heading,
)
from sweeps.search.ranking import Candidate, Ranking
from trainables.contract.metric_names import MetricName


@dataclass(frozen=True)
class Headline:
    """The recommendation: what to do, and the facts behind it, in sentences."""

    advice: str
    facts: tuple[str, ...]


def headline(
    ranking: Ranking, comparisons: Sequence[Comparison], on_ensemble: str = ""
) -> Headline:
    """The result of a sweep so far; `on_ensemble` is the advice if many networks are affordable."""
    chosen, baseline = ranking.chosen, ranking.baseline
    if chosen is None:
        return Headline(
            "There is nothing to recommend yet: no finished setting has a low enough error.",
            (),
        )
    facts = [_how_far_off(chosen, baseline), _how_often_wrong(chosen, baseline)]
    advice = _advice(chosen, baseline, comparisons, ranking.rule.objective)
    advice = " ".join(filter(None, (advice, on_ensemble)))
    return Headline(advice, tuple(fact[0].upper() + fact[1:] for fact in facts if fact))


def _advice(
    chosen: Candidate,
    baseline: Candidate | None,
    comparisons: Sequence[Comparison],
    objective: str,
) -> str:
    found = verdict(comparisons)
    if found is None:
        return f"{_name(chosen)} has the lowest validation {objective_heading(objective)}."
    by_error = MetricName.parse(objective).metric in UNCHANGED_BY_TEMPERATURE
    if found == "supported":
        better = (
            "it makes fewer errors than cross-entropy"
            if by_error
            else "it is better calibrated than cross-entropy with a temperature"
        )
        return f"Train with {_name(chosen)}: {better}."
    rest = "shown to be better" if found == "not supported" else "better"
    if baseline is None or chosen.loss == baseline.loss:
        return (
            f"Use plain cross-entropy, with or without a temperature: no other setting is {rest}."
        )
    temperature = format_temperature(baseline.mean("temperature"))
    divided = "" if by_error else f" and divide its logits by T = {temperature}"
    return (
        f"Use plain cross-entropy{divided}: no other setting is {rest}. The best other "
        f"setting is {_name(chosen)}."
    )


def _how_far_off(chosen: Candidate, baseline: Candidate | None) -> str:
    value = chosen.mean("test_ece")
    if math.isnan(value):
        return ""
    low, high = chosen.interval(MetricName("ece", "test"))
    ends = "" if math.isnan(low) else f" (95% interval {100 * low:.1f} to {100 * high:.1f})"
    text = (
        f"On the test split the confidence of {_name(chosen)} is off by {100 * value:.1f} "
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


def _words(loss: str) -> str:
    return format_loss(loss).replace("_", "-")


def _of_100(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


def _name(candidate: Candidate) -> str:
    given = candidate.setting.hyperparameters
    name = _words(candidate.loss)
    return f"{name} ({format_hyperparameters(given)})" if given else name
