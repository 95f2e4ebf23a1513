"""What stops trials and is no part of calsweep: tried on recorded trials first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

import numpy as np
from scipy import stats

from benchmarks.tabular.replay import with_values
from sweeps.search.entries import Entry
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import NeverStop, SuccessiveHalving, grace_period
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import BASELINE


class AcrossLosses(SuccessiveHalving):
    """ASHA among the trials of all losses together."""

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """As for one loss; see :class:`~sweeps.search.stopping.Stopper`."""
        return super().judge(replace(record, setting=BASELINE), entry)


class MedianStopping:
    """Stops what is worse, at its best, than the median of the others' means (Golovin et al. 2017).

    Among the trials of a loss, from the grace period on, if three others came as far.
    """

    def __init__(self, sweep: SweepFile) -> None:
        self._metric = sweep.scheduler.metric
        self.rungs = _between(grace_period(sweep), sweep)
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
    """ASHA with each rung as grace period of a share of the trials, the last share never stopped.

    The brackets of Li et al. (2018), run concurrently as Li et al. (2020) do: bracket *s* of
    ``s_max + 1`` gets ⌈(s_max + 1) / (s + 1) · η^s⌉ trials of each round, and begins to stop at the
    rung that leaves it *s* of them. Which bracket a trial is of is drawn by its number.
    """

    def __init__(self, sweep: SweepFile) -> None:
        self.rungs = SuccessiveHalving(sweep).rungs
        self._brackets = [
            *(
                SuccessiveHalving(with_values(sweep, [f"scheduler.grace_period={rung}"]))
                for rung in self.rungs
            ),
            NeverStop(sweep),
        ]
        most, factor = len(self.rungs), sweep.scheduler.reduction_factor
        sizes = [math.ceil((most + 1) / (s + 1) * factor**s) for s in range(most, -1, -1)]
        self._shares = np.array(sizes) / sum(sizes)
        self._seed = sweep.search.seed

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """See :class:`~sweeps.search.stopping.Stopper`."""
        draw = np.random.default_rng([self._seed, record.number])
        bracket = self._brackets[draw.choice(len(self._brackets), p=self._shares)]
        return bracket.judge(record, entry)


class Extrapolation:
    """Stops a trial whose metric will not come to the best of its loss, as its curve says.

    Predictive termination (Domhan et al. 2015), with one family of curves in place of eleven: see
    :func:`lowest_to_come`.
    """

    def __init__(self, sweep: SweepFile) -> None:
        self._metric = sweep.scheduler.metric
        self._last = sweep.training.epochs
        self.rungs = _between(max(_POINTS, grace_period(sweep)), sweep)
        self._best: dict[str, float] = {}

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """See :class:`~sweeps.search.stopping.Stopper`."""
        epoch, best = int(entry["epoch"]), self._best.get(record.loss, math.inf)
        if epoch == self._last:
            self._best[record.loss] = min(best, entry[self._metric])
        return epoch in self.rungs and _to_come(record, self._metric, epoch, self._last) > best


class NoFinalist:
    """Stops a trial that will not be a finalist, as its curves of objective and error say.

    Its error will be beyond the guard, or its objective above that of as many trials within the
    guard as there are finalists. Of all losses together.
    """

    def __init__(self, sweep: SweepFile) -> None:
        self._objective, self._guard = sweep.search.objective, sweep.search.guard
        self._finalists = sweep.selection.finalists
        self._last = sweep.training.epochs
        self.rungs = _between(max(_POINTS, grace_period(sweep)), sweep)
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


_POINTS = 5  # of a curve, to fit three numbers and to know how well they fit
_POWERS = (0.25, 0.5, 1.0, 2.0, 4.0)


def lowest_to_come(values: Sequence[float], last: int) -> float:
    """How low a curve may be after its last epoch: lower end of a one-sided 95 % interval.

    Least squares of c + a·t^(−b), the inverse power law ("pow3") of Domhan et al., the best b of
    five; the interval is that of a further point, as if b were known.

    Args:
        values: After each epoch so far, five at least.
        last: The epoch to come.
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


def _between(first: int, sweep: SweepFile) -> tuple[int, ...]:
    """The epochs from one on, but none that saves less than a tenth of a trial."""
    return tuple(range(first, math.floor(0.9 * sweep.training.epochs) + 1))
