"""Later data against earlier ones: what has changed, and whether only the prior has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import torch

from sweeps.errors import UserError
from sweeps.judging.applied import NamedScaling, frequencies_of
from sweeps.judging.facts import ClassFound, EventFound, GroupFound, Judged
from sweeps.judging.inputs import Predicted, aligned
from sweeps.judging.measured import LEVEL, Measured, Metrics, mean_of, share_where
from sweeps.messages.formatting import metric_heading
from sweeps.messages.shares import Share, class_words, percent, share_line
from trainables.metrics.inference.clusters import clusters_of
from trainables.metrics.inference.influence import share_interval
from trainables.metrics.inference.recalibration import calibration_intercept, calibration_slope
from trainables.metrics.proper_scores import TINY
from trainables.posthoc.prior_shift import prior_interval

_METRICS = ("event rate", "mean probability", "event_ece", "ece", "nll", "auroc", "error")


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


Cause = Literal["prior", "odds", "either", "shape", "none"]
"""What has changed: how frequent the event is; how likely at equal scores; more; nothing shown."""


@dataclass(frozen=True)
class PriorShift:
    """The event's frequency then, and now as scores alone show it, without labels.

    `intercept` and `slope` are those of calibration now, after the scaling of then.
    """

    event: str
    then: float
    now: Measured
    seen: Share
    intercept: Measured
    slope: Measured
    cause: Cause


@dataclass(frozen=True)
class Later:
    """What has changed since earlier data; `prior` is known for two classes.

    `classes` and `groups` are those whose mean probability less frequency (of groups of several
    classes: confidence less accuracy) has changed.
    """

    then: str
    changes: Sequence[Change]
    groups: Sequence[Change]
    classes: Sequence[Change]
    prior: PriorShift | None = None
    scaling: NamedScaling | None = None

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return {
            "then": self.then,
            **{
                name: [asdict(each) for each in getattr(self, name)]
                for name in ("changes", "groups", "classes")
            },
            **({} if self.prior is None else {"prior": asdict(self.prior)}),
        }


def compare_with_earlier(now: tuple[Predicted, Judged], then: tuple[Predicted, Judged]) -> Later:
    """The changes of metrics, the classes and groups that changed, and a shift of the prior.

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
    event = judged.event
    before, after = (
        each.metrics if event is None else _of_event(model, event.name) | dict(each.metrics)
        for model, each in ((old, earlier), (new, judged))
    )
    found = Later(
        old.name,
        _changes(before, after, [each for each in _METRICS if each in before and each in after]),
        [e for e in _changes(_gaps(earlier.per_group), _gaps(judged.per_group)) if e.shown],
        [e for e in _changes(_gaps(earlier.per_class), _gaps(judged.per_class)) if e.shown]
        if event is None
        else [],
    )
    if event is None or earlier.event is None:
        return found
    prior, scaling = prior_shift(new, event, old, NamedScaling.recommended(old, earlier))
    return replace(found, prior=prior, scaling=scaling)


def _of_event(model: Predicted, event: str) -> dict[str, Measured]:
    """The event's frequency and mean probability."""
    index, clusters = model.classes.index(event), clusters_of(model.clusters, len(model.labels))
    return {
        "event rate": share_where(model.labels == index, clusters),
        "mean probability": mean_of(model.probs[:, index], clusters, (0.0, 1.0)),
    }


def _changes(then: Metrics, now: Metrics, names: Sequence[str] | None = None) -> list[Change]:
    """By the recovery of variances from both intervals (Zou and Donner 2008)."""
    found = []
    for name in [each for each in now if each in then] if names is None else names:
        a, b = (min(max(m.value, m.low), m.high) for m in (now[name], then[name]))
        low = a - b - math.hypot(a - now[name].low, then[name].high - b)
        high = a - b + math.hypot(now[name].high - a, b - then[name].low)
        found.append(Change(name, then[name].value, now[name].value, low, high))
    return found


def _gaps(parts: Sequence[ClassFound] | Sequence[GroupFound]) -> dict[str, Measured]:
    """What classes, or groups, promise less what happened, at the level corrected for them."""
    found = {}
    for each in parts:
        share, gap = each.share, each.gap
        if share is not None:
            mean = share.mean
            found[each.name] = Measured(mean - share.frequency, mean - share.high, mean - share.low)
        elif gap is not None:
            found[each.name] = Measured(gap.gap, gap.low, gap.high)
    return found


def prior_shift(
    new: Predicted, event: EventFound, old: Predicted, named: NamedScaling
) -> tuple[PriorShift | None, NamedScaling | None]:
    """Why the event's probabilities have changed, and the scaling that follows it.

    `named` is that of the earlier data. If the slope has not changed, an offset of the logits is
    enough. If scores without labels show the frequency that the labels have, and not that of then,
    the prior has changed. Each test is at half the error.
    """
    index, level = new.classes.index(event.name), 1 - (1 - LEVEL) / 2
    lines, events, ids = [], [], []
    for model in (old, new):
        logits = named.probabilities(model).clamp(min=TINY).log()
        scores, happened = logits[:, index] - logits[:, 1 - index], model.labels == index
        clusters = clusters_of(model.clusters, len(happened))
        slope = Measured(*calibration_slope(scores, happened, level, clusters))
        intercept = Measured(*calibration_intercept(scores, happened, level, clusters))
        lines.append({"intercept": intercept, "slope": slope})
        events.append(happened)
        ids.append(clusters)
    then, rate = (float(each.double().mean()) for each in events)
    if not (0 < then < 1 and 0 < rate < 1):
        return None, None
    known = then, *share_interval(events[0], level, ids[0])
    now = Measured(*prior_interval(scores.sigmoid(), known, level, ids[1]))
    of_intercept, of_slope = _changes(lines[0], lines[1])
    cause: Cause = "none"
    if of_slope.shown:
        cause = "shape"
    elif of_intercept.shown:
        agrees, old_too = (replace(now, value=each).inside for each in (rate, then))
        cause = "odds" if not agrees else "either" if old_too else "prior"
    shift = PriorShift(event.name, then, now, event.share, **lines[1], cause=cause)
    if cause in ("shape", "none"):
        return shift, None
    offsets = torch.zeros(2, dtype=torch.float64)
    offsets[index] = shift.intercept.value
    moved = named.scaling.with_offsets(offsets)
    return shift, NamedScaling(moved, named.classes, frequencies_of(new))


def later_lines(found: Later) -> list[str]:
    """What has changed, the conclusion first."""
    lines = [] if found.prior is None else prior_lines(found.prior)
    changed = _listed([each for each in found.changes if each.shown])
    same = _listed([each for each in found.changes if not each.shown])
    lines.append(f"Since {found.then}: {changed or 'no metric has changed beyond chance'}.")
    if same:
        lines.append(f"No change beyond chance: {same}.")
    for what, parts in (("Classes", found.classes), ("Groups", found.groups)):
        if parts:
            lines.append(f"{what} whose gap has changed: {_listed(parts)}.")
    return lines


def _listed(changes: Sequence[Change]) -> str:
    return "; ".join(
        f"{metric_heading(each.metric)} {each.then:.4f} → {each.now:.4f} "
        f"[{each.low:+.4f}, {each.high:+.4f}]"
        for each in changes
    )


def prior_lines(prior: PriorShift) -> list[str]:
    """Whether only the prior has changed, then the mean probability against the frequency."""
    event = class_words(prior.event)
    ends = f"[{percent(round(prior.now.low, 6), 3)}, {percent(prior.now.high, 3)}]"
    rate = (
        f"{percent(prior.then)} % were {event}; the scores alone show "
        f"{percent(prior.now.value)} % {ends} now, the labels {percent(prior.seen.frequency)} %"
    )
    lines = [share_line(prior.event, prior.seen)]
    factor = math.exp(prior.intercept.value)
    match prior.cause:
        case "prior":
            first = (
                f"The prior has shifted, the shape has not: {rate}. Adjust the prior instead of a "
                "temperature: `save_scaling=FILE` writes it."
            )
        case "odds" | "either":
            first = (
                f"{'The prior has shifted, or at' if prior.cause == 'either' else 'At'} equal "
                f"scores the odds of {event} are {factor:.2g} times those of then; the shape "
                f"has not changed: {rate}. Adjust the odds instead of a temperature: "
                "`save_scaling=FILE` writes it."
            )
        case "shape":
            first = f"More than the prior has changed: {rate}. Scale again on these data."
        case "none":
            return lines
    return [first, *lines]
