"""Thresholds of a decision: by its costs, or by the error among the samples that are accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sweeps.judging.measured import LEVEL, Measured, mean_of, share_where
from sweeps.messages.shares import class_words
from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.influence import proportion_interval
from trainables.posthoc.scaling import ScalingName

_STARTS = 4  # coverages at which a sequence of tests begins, each with a part of the error
_STEPS = 100


@dataclass(frozen=True)
class CostThreshold:
    """The class is decided to be the event if its probability is at least `threshold`.

    `cost` is the mean cost per sample, `usual` that at a threshold of one half; `alarms` the share
    of samples that are decided to be the event, `caught` the share of events among those decided.
    """

    event: str
    threshold: float
    cost: Measured
    usual: Measured
    saved: Measured
    alarms: Measured
    caught: Measured

    @property
    def line(self) -> str:
        """One sentence."""
        event = class_words(self.event)
        return (
            f"Decide {event} from P({event}) = {self.threshold:.4g}: mean cost "
            f"{_shown(self.cost)} per sample, {_shown(self.usual)} from .5 (saved: "
            f"{_shown(self.saved)}); {_shown(self.alarms)} of the samples are decided so, and "
            f"{_shown(self.caught)} of the events are."
        )


@dataclass(frozen=True)
class AcceptedShare:
    """Predictions with a confidence of at least `threshold` are accepted; None if none can be.

    `error` is that among them on these samples; with 95 % probability the true one is at most
    `allowed`.
    """

    allowed: float
    threshold: float | None
    coverage: float
    error: Measured | None

    @property
    def line(self) -> str:
        """One sentence."""
        if self.threshold is None or self.error is None:
            return (
                f"No threshold of the confidence is known to keep the error below {self.allowed:g}:"
                " too few samples, or too many errors."
            )
        return (
            f"Accept predictions with a confidence of at least {self.threshold:.4g}: "
            f"{100 * self.coverage:.1f} % of the samples, with an error of {_shown(self.error)}, "
            f"at most {self.allowed:g} with 95 % probability."
        )


@dataclass(frozen=True)
class Decided:
    """Both thresholds, as far as they are asked for, after the scaling `scaled`."""

    scaled: ScalingName
    cost: CostThreshold | None
    accepted: AcceptedShare | None

    @property
    def lines(self) -> list[str]:
        """A sentence for each."""
        how = "" if self.scaled == "none" else f"After {self.scaled} scaling, cross-fitted: "
        found = (None if each is None else each.line for each in (self.cost, self.accepted))
        return [how + line for line in found if line is not None]


def cost_threshold(
    event: str,
    probs: Tensor,
    happened: Tensor,
    costs: tuple[float, float],
    clusters: Clusters | None,
) -> CostThreshold:
    """The threshold of least expected cost, from probabilities (N,) of the event.

    fp / (fp + fn) for calibrated probabilities (Elkan 2001, "The foundations of cost-sensitive
    learning"). `costs` are those of a false alarm (fp) and of a missed event (fn).
    """
    fp, fn = costs
    threshold = fp / (fp + fn)
    happened, probs = happened.bool(), probs.double()

    def paid(limit: float) -> Tensor:
        alarm = probs >= limit
        return fp * (alarm & ~happened).double() + fn * (~alarm & happened).double()

    alarm = (probs >= threshold).double()
    own, usual, most = paid(threshold), paid(0.5), max(costs)
    caught = alarm[happened]
    of_events = None if clusters is None else clusters.take(happened.nonzero()[:, 0])
    return CostThreshold(
        event,
        threshold,
        mean_of(own, clusters, (0.0, most)),
        mean_of(usual, clusters, (0.0, most)),
        mean_of(usual - own, clusters, (-most, most)),
        share_where(alarm, clusters),
        share_where(caught, of_events) if len(caught) else Measured(math.nan),
    )


def accepted_share(confidence: Tensor, correct: Tensor, allowed: float) -> AcceptedShare:
    """The largest coverage whose error is at most `allowed`, with 95 % probability.

    Coverages are tested by exact binomial tests in fixed sequences that begin at four of them,
    each with a fourth of the error (Angelopoulos et al. 2021, "Learn then test"). Samples must be
    independent.
    """
    scores, order = confidence.double().sort(descending=True)
    wrong = (~correct.bool())[order].double()
    count, level = len(scores), (1 - LEVEL) / _STARTS
    # Only where the confidence changes: equal ones are accepted together.
    last = torch.cat([(scores[1:] != scores[:-1]).nonzero()[:, 0] + 1, torch.tensor([count])])
    wanted = (torch.arange(1, _STEPS + 1) * count // _STEPS).clamp(min=1)
    steps = last[torch.searchsorted(last, wanted)].tolist()
    best = 0
    for start in range(_STARTS):
        for taken in steps[_STEPS * start // _STARTS :]:
            share = float(wrong[:taken].mean())
            if proportion_interval(share, taken, 1 - 2 * level)[1] > allowed:
                break
            best = max(best, taken)
    if not best:
        return AcceptedShare(allowed, None, 0.0, None)
    error = share_where(wrong[:best], None)
    return AcceptedShare(allowed, float(scores[best - 1]), best / count, error)


def _shown(found: Measured) -> str:
    return f"{found.value:.4g} [{found.low:.4g}, {found.high:.4g}]"
