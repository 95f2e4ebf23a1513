"""Half-widths of intervals for the best of several settings.

A setting's mean differs from its expected value by two independent errors: X, from the samples,
and Y, from the training seeds. Selection makes the error of the selected setting larger.

On the samples used for selection: the m `finalists` out of N `candidates` were selected by results
on these samples, that is by X, and then trained with fresh seeds. For every selection rule,

    P(a finalist has |X + Y| > h) <= N P(|X + Y| > h, |X| > x),   P(|X| > x) = m / N,

because the Y of fresh seeds is independent of the selection, P(|x + Y| > h) grows with |x|, and the
bound is concave in the probability of selection. The half-width h makes the right-hand side equal
to the allowed error. Without seed noise, h is Bonferroni's for N settings; without sampling noise,
for m.

On fresh samples (a test split), X and Y swap roles: the selected setting is one of m whose runs
were compared on other samples, that is by Y.

X is assumed normal, and Y Student's t times the estimated standard deviation of the seeds.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit
from torch import Tensor

from trainables.metrics._inputs import check_count, check_level
from trainables.metrics.inference.clusters import Clusters, clusters_of

Array = npt.NDArray[np.float64]

_SHARES = np.sin(np.linspace(0, np.pi / 2, 65)) ** 2  # shares of the seeds in the variance
_HALVINGS = 50
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_PLACES = ((_POINTS + 1) / 2) ** 4  # dense in the tail
_STEPS = _WEIGHTS * 2 * ((_POINTS + 1) / 2) ** 3


@dataclass(frozen=True)
class Selection:
    """How a setting was selected, to correct its interval.

    ``error`` is the allowed probability that the interval misses, in (0, 1); ``finalists`` of the
    ``candidates`` were trained again with fresh seeds; ``fresh_samples`` says whether the samples
    were not used for selection.
    """

    error: float
    candidates: int
    finalists: int
    fresh_samples: bool = False

    def share(self, share: float) -> "Selection":
        """The same selection with a share of the allowed error."""
        return Selection(share * self.error, self.candidates, self.finalists, self.fresh_samples)

    def widened(self, samples: Array, freedom: float) -> Array:
        """The variance of a normal error with tails as wide as those of Student's t.

        `samples` is a variance over samples, estimated with this `freedom`.
        """
        if math.isinf(freedom):
            return samples
        tail = self.error / (2 * self.settings)
        return np.asarray(samples * (stdtrit(freedom, tail) / ndtri(tail)) ** 2)

    @property
    def settings(self) -> int:
        """The number of settings whose noise of the samples counts."""
        return 1 if self.fresh_samples else self.candidates


def half_width(samples: Array, seeds: Array | float, freedom: int, selection: Selection) -> Array:
    """Half-width of the interval of a mean, in the shape of `samples`, its variance over samples.

    `seeds` is its estimated variance over seeds, a number or the same shape, with this `freedom`
    (degrees of freedom); if that is 0, it is unknown and ignored.
    """
    samples = np.asarray(samples)
    if freedom == 0:
        tail = selection.error / (2 * selection.settings)
        return np.asarray(-ndtri(tail) * np.sqrt(samples))
    total = samples + seeds
    share = np.divide(seeds, total, out=np.zeros_like(total), where=total > 0)
    squares = np.interp(share, _SHARES, _squared_half_widths(freedom, selection))
    return np.asarray(np.sqrt(squares * total))


@lru_cache(maxsize=64)
def _squared_half_widths(freedom: int, selection: Selection) -> Array:
    """Squared half-width for a total variance of 1, by the share of the seeds in it, (65,)."""
    by_samples, by_seeds = np.sqrt(1 - _SHARES)[1:-1, None], np.sqrt(_SHARES)[1:-1, None]
    error = selection.error
    if selection.fresh_samples:
        settings, picked = selection.finalists, 1
        known = -by_seeds * stdtrit(freedom, _PLACES * picked / (2 * settings))
        fresh, below = by_samples, ndtr
        ends = -ndtri(error / 2), -stdtrit(freedom, error / (2 * settings))
    else:
        settings, picked = selection.candidates, selection.finalists
        known = -by_samples * ndtri(_PLACES * picked / (2 * settings))
        fresh, below = by_seeds, partial(stdtr, freedom)
        ends = -ndtri(error / (2 * settings)), -stdtrit(freedom, error / (2 * picked))
    low, high = np.zeros_like(fresh), np.full_like(fresh, 2 * max(ends))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = below((known - middle) / fresh) + below((-known - middle) / fresh)
        missed = picked * (beyond * _STEPS).sum(axis=1, keepdims=True)
        low, high = (np.where(missed > error, middle, low), np.where(missed > error, high, middle))
    return np.concatenate([[ends[0]], high[:, 0], [ends[1]]]) ** 2


@dataclass(frozen=True, eq=False)
class Design:
    """How two settings are compared.

    Attributes:
        confidence: Level of the interval, in (0, 1).
        candidates: Number of settings from which ours was selected by results on these samples.
        finalists: Number of settings trained again with fresh seeds, from which ours was selected
            as the best. None if there were no fresh seeds: the runs are those of the search.
        fresh_samples: Whether these samples were not used for selection, like a test split.
            `candidates` is then ignored, since only the runs were selected, on other samples.
        same_runs: Whether both settings are the same networks in the same order, for example with
            and without temperature scaling. The variance over seeds is then that of their paired
            differences.
        decisions: Number of consecutive rows per sample that are different decisions, as in
            multi-label data. The metric is then the mean over the decisions, and samples, not rows,
            are independent.
        clusters: The cluster of each row, (N,) integers; see `interval`. With fewer than 10 of
            them, the interval is infinite.

    Raises:
        ValueError: If a number is not as above.
    """

    confidence: float = 0.95
    candidates: int = 1
    finalists: int | None = None
    fresh_samples: bool = False
    same_runs: bool = False
    decisions: int = 1
    clusters: Tensor | None = None

    def __post_init__(self) -> None:
        check_level(self.confidence)
        for name in ("candidates", "decisions"):
            check_count(name, getattr(self, name))
        check_count("finalists", self.finalists or self.candidates)
        if (self.finalists or 0) > self.candidates:
            raise ValueError(
                f"finalists must be at most candidates = {self.candidates}, got {self.finalists}"
            )

    @property
    def selection(self) -> Selection:
        """How ours was selected, with the allowed error of the interval."""
        finalists = self.finalists or self.candidates
        return Selection(1 - self.confidence, self.candidates, finalists, self.fresh_samples)

    def units(self, count: int) -> Clusters:
        """What is independent among `count` rows: clusters, or samples with all their decisions.

        Raises:
            TypeError: The clusters are no tensor of integers.
            ValueError: The rows are not `decisions` of each sample, or there is not a cluster for
                each.
        """
        if count % self.decisions:
            raise ValueError(f"{count} rows are not {self.decisions} of each sample")
        samples = Clusters(np.arange(count) // self.decisions, alike=False)
        return clusters_of(self.clusters, count) or samples


ONE_LOOK = Design()
"""One run of each, without a selection, on independent samples."""
