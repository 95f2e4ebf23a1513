"""Later data against earlier ones: what has changed, and whether only the prior has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from sweeps.errors import UserError
from sweeps.judging.applied import NamedScaling
from sweeps.judging.events import event_found
from sweeps.judging.facts import EventFound, Judged, Measured
from sweeps.judging.inputs import Predicted, aligned
from sweeps.messages.formatting import metric_heading
from sweeps.messages.shares import Share, percent, share_line
from trainables.metrics.proper_scores import TINY
from trainables.posthoc.prior_shift import prior_interval, with_priors

_METRICS = ("event_ece", "ece", "nll", "auroc", "error")


@dataclass(frozen=True)
class Change:
    """A metric then and now, and the difference, now less then, with an unpaired interval."""

    metric: str
    then: float
    now: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """Whether it has changed beyond chance."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class PriorShift:
    """The event's frequency then, and now as scores alone show it, without labels.

    `explains` is whether it changed, and with it the probabilities of now are calibrated.
    """

    event: str
    then: float
    now: Measured
    seen: Share
    adjusted: Share
    explains: bool


@dataclass(frozen=True)
class Later:
    """What has changed since earlier data; `prior` is known for two classes."""

    then: str
    changes: Sequence[Change]
    groups: Sequence[str]
    prior: PriorShift | None = None
    scaling: NamedScaling | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "then": self.then,
            "changes": [asdict(each) for each in self.changes],
            "groups": list(self.groups),
            **({} if self.prior is None else {"prior": asdict(self.prior)}),
        }


def compare_with_earlier(now: tuple[Predicted, Judged], then: tuple[Predicted, Judged]) -> Later:
    """The changes of metrics, the groups that changed, and a shift of the prior.

    Raises:
        UserError: The classes differ.
    """
    (new, judged), (old, earlier) = now, then
    if len(new.classes) != len(old.classes):
        raise UserError(
            f"{new.name} has {len(new.classes)} classes, {old.name} {len(old.classes)}; later data "
            "have the same classes"
        )
    old = replace(aligned([new, old])[1], classes=new.classes)
    changes = [
        _change(name, earlier.metrics[name], judged.metrics[name])
        for name in _METRICS
        if name in earlier.metrics and name in judged.metrics
    ]
    found = Later(old.name, changes, _groups_that_changed(judged, earlier))
    if judged.event is None or earlier.event is None:
        return found
    prior, scaling = _prior(new, judged.event, old, NamedScaling.recommended(old, earlier))
    return replace(found, prior=prior, scaling=scaling)


def _change(name: str, then: Measured, now: Measured) -> Change:
    """By the recovery of variances from both intervals (Zou and Donner 2008)."""
    a, b = (min(max(each.value, each.low), each.high) for each in (now, then))
    low = a - b - math.hypot(a - now.low, then.high - b)
    high = a - b + math.hypot(now.high - a, b - then.low)
    return Change(name, then.value, now.value, low, high)


def _groups_that_changed(now: Judged, then: Judged) -> list[str]:
    """Groups whose gap, at its corrected level, lies outside that of earlier data."""
    before = {each.name: each.gap for each in then.per_group}
    found = []
    for each in now.per_group:
        gap, old = each.gap, before.get(each.name)
        if gap is not None and old is not None and (gap.low > old.high or gap.high < old.low):
            found.append(each.name)
    return found


def _prior(
    new: Predicted, event: EventFound, old: Predicted, named: NamedScaling
) -> tuple[PriorShift | None, NamedScaling | None]:
    """The shift of the prior, and the scaling that follows it if it explains the change.

    With that scaling, probabilities are calibrated on the earlier data.
    """
    index = new.classes.index(event.name)
    frequency = float((old.labels == index).double().mean())
    if not 0 < frequency < 1:
        return None, None
    probs = named.probabilities(new)
    now = Measured(*prior_interval(probs[:, index], frequency, len(old.labels)))
    priors = [
        torch.tensor((1 - each, each) if index else (each, 1 - each), dtype=torch.float64)
        for each in (frequency, now.value)
    ]
    moved = with_priors(probs, *priors)
    after = event_found(replace(new, probs=moved, logits=moved.clamp(min=TINY).log()), index)
    changed = now.low > frequency or now.high < frequency
    straight = not (after.slope.low > 1 or after.slope.high < 1)
    explains = changed and straight and after.share.word == "neither"
    shift = PriorShift(event.name, frequency, now, event.share, after.share, explains)
    if not explains:
        return shift, None
    scaling = named.scaling.with_offsets((priors[1] / priors[0]).log())
    return shift, NamedScaling(scaling, named.classes)


def later_lines(found: Later) -> list[str]:
    """What has changed, the conclusion first."""
    lines = [] if found.prior is None else _prior_lines(found.prior)
    shown = [
        f"{metric_heading(each.metric)} {each.then:.4f} → {each.now:.4f} "
        f"[{each.low:+.4f}, {each.high:+.4f}]"
        for each in found.changes
        if each.shown
    ]
    changed = "; ".join(shown) if shown else "no metric has changed beyond chance"
    lines.append(f"Since {found.then}: {changed}.")
    if found.groups:
        lines.append(f"Groups that have changed: {', '.join(found.groups)}.")
    return lines


def _prior_lines(prior: PriorShift) -> list[str]:
    ends = f"[{percent(prior.now.low, 3)}, {percent(prior.now.high, 3)}]"
    rate = (
        f"{percent(prior.then)} % were {prior.event}; the scores alone show "
        f"{percent(prior.now.value)} % {ends} now, the labels {percent(prior.seen.frequency)} %"
    )
    if prior.explains:
        return [
            f"The prior has shifted, the shape has not: {rate}. Adjust the prior instead of a "
            "temperature: --save-scaling writes it.",
            share_line(prior.event, prior.seen),
        ]
    if prior.seen.word == "neither":
        return [share_line(prior.event, prior.seen)]
    return [
        f"More than the prior has changed: {rate}. Scale again on these data.",
        share_line(prior.event, prior.seen),
    ]
