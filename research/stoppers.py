"""Stoppers that are not part of calsweep, for comparison on recorded trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
from scipy import stats

from benchmarks.tabular.replay import with_values
from sweeps.search.plan import Plan
from sweeps.search.record import Entry, TrialRecord
from sweeps.search.stopping import NeverStop, Stopper, SuccessiveHalving, grace_period


class MedianStopping:
    """The median stopping rule (Golovin et al. 2017), among the trials of a loss.

    Stops a trial whose best value is worse than the median of the running means of the others, from
    the grace period on, if at least three others have reached the epoch.
    """

    def __init__(self, plan: Plan) -> None:
        self._metric = plan.sweep.scheduler.metric
        self.rungs = _between(grace_period(plan), plan)
        self._means: dict[tuple[str, int], dict[int, float]] = {}

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """See :class:`~sweeps.search.stopping.Stopper`."""
        epoch = int(entry["epoch"])
        values = [known[self._metric] for known in record.history[:epoch]]
        means = self._means.setdefault((record.loss, epoch), {})
        others = [mean for number, mean in means.items() if number != record.number]
        means[record.number] = fmean(values)
        return epoch in self.rungs and len(others) >= 3 and not min(values) <= median(others)


class HyperBand:
    """Asynchronous HyperBand: ASHA with a different grace period per bracket.

    The brackets of Li et al. (2018), run concurrently as by Li et al. (2020). Of each round,
    bracket *s* of ``s_max + 1`` gets ⌈(s_max + 1) / (s + 1) · η^s⌉ trials, and its grace period
    leaves *s* rungs. The last bracket never stops trials. The number of a trial determines its
    bracket.
    """

    def __init__(self, plan: Plan) -> None:
        self.rungs = SuccessiveHalving(plan).rungs
        self._brackets: list[Stopper] = [
            *(
                SuccessiveHalving(Plan(with_values(plan.sweep, [f"scheduler.grace_period={rung}"])))
                for rung in self.rungs
            ),
            NeverStop(plan),
        ]
        most, factor = len(self.rungs), plan.sweep.scheduler.reduction_factor
        sizes = [math.ceil((most + 1) / (s + 1) * factor**s) for s in range(most, -1, -1)]
        self._shares = np.array(sizes) / sum(sizes)
        self._seed = plan.search.seed

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """See :class:`~sweeps.search.stopping.Stopper`."""
        draw = np.random.default_rng([self._seed, record.number])
        bracket = self._brackets[draw.choice(len(self._brackets), p=self._shares)]
        return bracket.judge(record, entry)


class Extrapolation:
    """Stops a trial whose extrapolated metric will not reach the best value of its loss.

    Predictive termination (Domhan et al. 2015), with one family of curves instead of eleven: see
    :func:`lowest_to_come`.
    """

    def __init__(self, plan: Plan) -> None:
        self._metric = plan.sweep.scheduler.metric
        self._last = plan.epochs
        self.rungs = _between(max(_POINTS, grace_period(plan)), plan)
        self._best: dict[str, float] = {}

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """See :class:`~sweeps.search.stopping.Stopper`."""
        epoch, best = int(entry["epoch"]), self._best.get(record.loss, math.inf)
        if epoch == self._last:
            self._best[record.loss] = min(best, entry[self._metric])
        return epoch in self.rungs and _to_come(record, self._metric, epoch, self._last) > best


class NoFinalist:
    """Stops a trial whose extrapolated curves show that it will not be a finalist.

    Either its error will exceed the guard, or enough trials within the guard for all finalists have
    a lower objective. All losses compete.
    """

    def __init__(self, plan: Plan) -> None:
        self._objective, self._guard = plan.search.objective, plan.search.guard
        self._finalists = plan.sweep.selection.finalists
        self._last = plan.epochs
        self.rungs = _between(max(_POINTS, grace_period(plan)), plan)
        self._ended: list[float] = []
        self._limit = math.inf

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """See :class:`~sweeps.search.stopping.Stopper`."""
        epoch = int(entry["epoch"])
        if epoch == self._last:
            if record.role == "baseline":
                self._limit = entry["val_error"] + self._guard
            if entry["val_error"] <= self._limit:
                self._ended = sorted([*self._ended, entry[self._objective]])[: self._finalists]
        if epoch not in self.rungs:
            return False
        full = len(self._ended) == self._finalists
        most = {"val_error": self._limit, self._objective: max(self._ended) if full else math.inf}
        return any(
            _to_come(record, metric, epoch, self._last) > limit for metric, limit in most.items()
        )


_POINTS = 5  # minimum number of points to fit three parameters and estimate the residuals
_POWERS = (0.25, 0.5, 1.0, 2.0, 4.0)


def lowest_to_come(values: Sequence[float], last: int) -> float:
    """Extrapolates a curve to its last epoch: lower end of a one-sided 95 % prediction interval.

    Least-squares fit of c + a·t^(−b), the inverse power law ("pow3") of Domhan et al., with the
    best of five values of b. The prediction interval assumes that b is known.

    Args:
        values: Values after each epoch so far, at least five.
        last: The last epoch.
    """
    epochs = np.arange(1, len(values) + 1)
    known = np.asarray(values)
    fits = []
    for power in _POWERS:
        design = np.stack([np.ones(len(known)), epochs**-power], axis=1)
        inverse = np.linalg.inv(design.T @ design)
        weights = inverse @ design.T @ known
        squares = float(np.square(known - design @ weights).sum())
        fits.append((squares, power, weights, inverse))
    squares, power, weights, inverse = min(fits, key=lambda fit: fit[0])
    point = np.array([1.0, last**-power])
    free = len(known) - 3
    error = math.sqrt(squares / free * (1 + point @ inverse @ point))
    return float(point @ weights - stats.t.ppf(0.95, free) * error)


def _to_come(record: TrialRecord, metric: str, epoch: int, last: int) -> float:
    return lowest_to_come([entry[metric] for entry in record.history[:epoch]], last)


def _between(first: int, plan: Plan) -> tuple[int, ...]:
    """The epochs from ``first`` on at which stopping saves at least a tenth of a trial."""
    return tuple(range(first, math.floor(0.9 * plan.epochs) + 1))
