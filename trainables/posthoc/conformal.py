"""Conformal prediction sets: sets of classes with guaranteed coverage of the true class."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from trainables.metrics._inputs import check_level, check_probs
from trainables.plugins.arguments import check_choice
from trainables.posthoc.base import Fitted

SetMethod = Literal["lac", "aps", "raps"]

_FREE_RANKS = 5  # RAPS: number of ranks without a penalty
_PENALTY = 0.01  # RAPS: penalty for each further rank


class PredictionSets(Fitted[Tensor]):
    """Sets of classes that contain the true class of a new sample with a given probability.

    Split conformal prediction. The guarantee requires calibration samples that neither the
    classifier nor its temperature was fitted on, and that are exchangeable with new samples. The
    coverage is marginal: it holds on average over samples, not for each class or group. The most
    likely class is always in the set.

    - ``lac``: all classes with a probability above a threshold; the smallest sets on average
      (Sadinle et al. 2019).
    - ``aps``: the most likely classes up to a cumulative probability; sets adapt more to the
      difficulty of a sample (Romano et al. 2020). Randomised with ``seed``, to avoid overcoverage.
    - ``raps``: like ``aps``, with a penalty of 0.01 for each class beyond the fifth (Angelopoulos
      et al. 2021).

    Args:
        method: ``lac``, ``aps`` or ``raps``.
        coverage: Target probability that the set contains the true class, in (0, 1).
        seed: Seed of the randomisation of APS and RAPS.
        threshold: Threshold of an earlier fit with this method and coverage, instead of a fit; of
            :class:`ClassSets` one for each class.
    """

    def __init__(
        self,
        method: SetMethod = "lac",
        coverage: float = 0.9,
        seed: int = 0,
        threshold: float | list[float] | None = None,
    ) -> None:
        check_choice("method", method, get_args(SetMethod))
        check_level(coverage)
        self.method, self.coverage, self.seed = method, coverage, seed
        self._fitted = None if threshold is None else _in_double(threshold)

    @property
    def threshold(self) -> float:
        """The largest score of a class in the set; infinite with too few samples."""
        return float(self._result())

    def fit(self, probs: Tensor, labels: Tensor) -> Self:
        """Fit the threshold on samples that were not used for any other fit.

        ``probs`` are calibrated probabilities (N, K) whose rows sum to one, ``labels`` true classes
        (N,); errors as in :meth:`PostHoc.fit`.
        """
        probs, labels = check_probs(probs, labels)
        scores = self._scores(probs, self.seed).gather(1, labels[:, None])[:, 0]
        # Exact: in floats, 100 · .55 is above 55, and the rank would be one too high.
        rank = math.ceil((len(labels) + 1) * Fraction(str(self.coverage)))
        ascending = scores.sort().values
        self._fitted = ascending[rank - 1] if rank <= len(labels) else _in_double(math.inf)
        return self

    def __call__(self, probs: Tensor) -> Tensor:
        """Membership of each class in the set of each sample, bool (N, K), for `probs` (N, K)."""
        inside = self._scores(probs, self.seed + 1) <= self._result().to(probs.device)
        return inside.scatter_(1, probs.argmax(dim=1, keepdim=True), value=True)

    def _scores(self, probs: Tensor, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        noise = torch.rand(len(probs), 1, generator=generator, dtype=torch.float64)
        return SCORES[self.method](probs, noise.to(probs.device))


class ClassSets(PredictionSets):
    """Sets that contain the true class with a given probability for samples of each class.

    A class has its own threshold, from the calibration samples of this class (Vovk 2012). A class
    with fewer of them than the coverage needs is in every set: 9 for a coverage of 90 %.
    """

    @property
    def thresholds(self) -> list[float]:
        """The largest score of each class in the set; infinite with too few samples."""
        return [float(each) for each in self._result()]

    def fit(self, probs: Tensor, labels: Tensor) -> Self:
        """Fit the threshold of each class; see :meth:`PredictionSets.fit`."""
        probs, labels = check_probs(probs, labels)
        found = []
        for index in range(probs.shape[1]):
            own = labels == index
            found.append(super().fit(probs[own], labels[own]).threshold if own.any() else math.inf)
        self._fitted = _in_double(found)
        return self


def _in_double(values: float | list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _aps(probs: Tensor, noise: Tensor, penalty: float = 0.0) -> Tensor:
    """The sum of all larger probabilities, a random share of the own one, and a rank penalty."""
    values, order = probs.sort(dim=1, descending=True)
    values = values.double()
    scores = values.cumsum(dim=1).sub_(values).add_(noise * values)
    if penalty:
        ranks = torch.arange(1, probs.shape[1] + 1, device=probs.device)
        scores += (penalty * (ranks - _FREE_RANKS)).clamp(min=0)
    return torch.empty_like(scores).scatter_(1, order, scores)


SCORES: dict[SetMethod, Callable[[Tensor, Tensor], Tensor]] = {
    "lac": lambda probs, _: 1 - probs.double(),
    "aps": _aps,
    "raps": partial(_aps, penalty=_PENALTY),
}
"""The score (N, K) of each class by method, given noise (N, 1) in [0, 1]; lower is likelier."""
