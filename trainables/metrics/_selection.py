"""Half-widths of intervals for the best of several settings.

A setting's mean differs from its expected value by two independent errors: X, from the samples,
and Y, from the training seeds. Selection makes the error of what was selected larger than usual.

On the samples that selected it: the `finalists` best of `candidates` settings were picked by
results on the samples, that is by X, and then trained with fresh seeds. Whatever the rule that
picks, with N candidates and m finalists

    P(a finalist has |X + Y| > h) <= N P(|X + Y| > h, |X| > x),   P(|X| > x) = m / N,

as the Y of fresh seeds is independent of the picking, P(|x + Y| > h) grows with |x|, and the bound
is concave in the probability of being picked. The half-width h makes the right side equal to the
error that is allowed. Without noise of seeds h is that of Bonferroni's correction for N settings,
without noise of samples that for m.

On fresh samples (a test split) X and Y change places: the selected setting is one of m whose runs
were compared on other samples, that is by Y.

X is taken as normal; Y as Student's t times the estimated standard deviation of the seeds.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit

Array = npt.NDArray[np.float64]

_SHARES = np.sin(np.linspace(0, np.pi / 2, 65)) ** 2  # of the seeds in the variance
_HALVINGS = 50
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_PLACES = ((_POINTS + 1) / 2) ** 4  # dense in the tail
_STEPS = _WEIGHTS * 2 * ((_POINTS + 1) / 2) ** 3


@dataclass(frozen=True)
class Selection:
    """How the setting was selected whose interval is made.

    Attributes:
        error: The probability of an interval that misses, in (0, 1).
        candidates: How many settings there were.
        finalists: How many of them were trained again with fresh seeds.
        fresh_samples: Whether the samples took no part in the selection.
    """

    error: float
    candidates: int
    finalists: int
    fresh_samples: bool = False

    def share(self, share: float) -> "Selection":
        """The same with a share of the error."""
        return Selection(share * self.error, self.candidates, self.finalists, self.fresh_samples)


def half_width(samples: Array, seeds: Array | float, freedom: int, selection: Selection) -> Array:
    """Half-width of an interval.

    Args:
        samples: Variance of the mean by its samples, of any shape.
        seeds: Estimated variance of the mean by the seeds, a number or of the same shape.
        freedom: Degrees of freedom of that estimate; 0 where it is unknown, and left out.
        selection: How the setting was selected.
    """
    samples = np.asarray(samples)
    if freedom == 0:
        settings = 1 if selection.fresh_samples else selection.candidates
        return np.asarray(-ndtri(selection.error / (2 * settings)) * np.sqrt(samples))
    total = samples + seeds
    share = np.divide(seeds, total, out=np.zeros_like(total), where=total > 0)
    squares = np.interp(share, _SHARES, _squared_half_widths(freedom, selection))
    return np.asarray(np.sqrt(squares * total))


@lru_cache(maxsize=64)
def _squared_half_widths(freedom: int, selection: Selection) -> Array:
    """The square of the half-width, by the share of the seeds in a variance of 1, (65,)."""

    def normal(value: Array) -> Array:
        return np.asarray(ndtr(value))

    def student(value: Array) -> Array:
        return np.asarray(stdtr(freedom, value))

    by_samples, by_seeds = np.sqrt(1 - _SHARES)[1:-1, None], np.sqrt(_SHARES)[1:-1, None]
    error = selection.error
    if selection.fresh_samples:
        settings, picked = selection.finalists, 1
        known = -by_seeds * stdtrit(freedom, _PLACES * picked / (2 * settings))
        fresh, below = by_samples, normal
        ends = -ndtri(error / 2), -stdtrit(freedom, error / (2 * settings))
    else:
        settings, picked = selection.candidates, selection.finalists
        known = -by_samples * ndtri(_PLACES * picked / (2 * settings))
        fresh, below = by_seeds, student
        ends = -ndtri(error / (2 * settings)), -stdtrit(freedom, error / (2 * picked))
    low, high = np.zeros_like(fresh), np.full_like(fresh, 2 * max(ends))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = below((known - middle) / fresh) + below((-known - middle) / fresh)
        missed = picked * (beyond * _STEPS).sum(axis=1, keepdims=True)
        low, high = (
            np.where(missed > error, middle, low),
            np.where(missed > error, high, middle),
        )
    return np.concatenate([[ends[0]], high[:, 0], [ends[1]]]) ** 2
