"""Gaussian processes over settings: predict some settings from others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist

from search_spaces import Distribution, available_search_spaces, search_space
from trainables.contract.setting import Setting

Array = np.ndarray[Any, np.dtype[np.float64]]

REFERENCE: Final = -1.0  # replaces a loss's number for the baseline, from which all losses differ
_LENGTH: Final = 0.3  # correlation length, as a share of a range


@dataclass(frozen=True)
class Guess:
    """A normal distribution for each of S settings: means and standard deviations, (S,)."""

    mean: Array
    sd: Array


class Places:
    """Encodes settings as rows: the loss, then each hyperparameter as a share of its range.

    Ranges are those of the loss's own search space, so a row does not depend on how a sweep narrows
    them. For a custom loss they are the ranges in `branches`, the sweep's space.
    """

    def __init__(self, branches: Mapping[str, Mapping[str, Distribution]]) -> None:
        own = {loss: search_space(loss) for loss in branches if loss in available_search_spaces()}
        self._branches = {
            loss: {**branch, **own.get(loss, {})} for loss, branch in branches.items()
        }
        self._numbers = {loss: number for number, loss in enumerate(sorted(self._branches))}
        self.width = 1 + max((_width(branch) for branch in self._branches.values()), default=0)

    def knows(self, setting: Setting) -> bool:
        """Whether a setting can be encoded: its loss is searched and no hyperparameter missing."""
        branch = self._branches.get(setting.loss)
        return branch is not None and branch.keys() <= setting.hyperparameters.keys()

    def __call__(self, settings: Sequence[Setting]) -> Array:
        """The rows of settings that can be encoded, (S, width)."""
        found = np.zeros((len(settings), self.width))
        for row, setting in zip(found, settings, strict=True):
            place = _place(self._branches[setting.loss], setting.hyperparameters)
            row[0] = self._numbers[setting.loss]
            row[1 : 1 + len(place)] = place
        return found


@dataclass(frozen=True)
class SettingKernel:
    """Covariance of two settings, each a row of (feature f, uncertainty d, loss, place u).

    common² + scale² f f' + [same loss] · (offset² + d d' + slope² u·u' + local² exp(−‖u−u'‖²/2ℓ²))

    The arguments are standard deviations: of an effect on all settings, of the factor of the
    feature, and within each loss of an offset, a slope and a smooth residual.
    """

    common: float = 0.0
    scale: float = 0.0
    offset: float = 0.0
    slope: float = 0.0
    local: float = 0.0

    def __call__(self, a: Array, b: Array) -> Array:
        """Covariances, (N, M)."""
        same = (a[:, 2][:, None] == b[:, 2]) & (b[:, 2] != REFERENCE)
        near = np.exp(-cdist(a[:, 3:], b[:, 3:], "sqeuclidean") / (2 * _LENGTH**2))
        within = (
            self.offset**2
            + np.outer(a[:, 1], b[:, 1])
            + self.slope**2 * (a[:, 3:] @ b[:, 3:].T)
            + self.local**2 * near
        )
        found: Array = self.common**2 + self.scale**2 * np.outer(a[:, 0], b[:, 0]) + same * within
        return found

    def variances(self, a: Array) -> Array:
        """Covariances of rows with themselves, (N,)."""
        within = (
            self.offset**2
            + a[:, 1] ** 2
            + self.slope**2 * np.square(a[:, 3:]).sum(axis=1)
            + self.local**2
        )
        found: Array = (
            self.common**2 + self.scale**2 * a[:, 0] ** 2 + (a[:, 2] != REFERENCE) * within
        )
        return found


def rows_of(places: Array, feature: Array | float = 0.0, doubt: Array | float = 0.0) -> Array:
    """Rows of a :class:`SettingKernel`, (S, 2 + width)."""
    columns = [np.broadcast_to(np.asarray(c, dtype=float), len(places)) for c in (feature, doubt)]
    return np.column_stack([*columns, places])


class Observed(NamedTuple):
    """Rows (N, D) with their values (N,) and the variances of their noise (N,); N may be 0."""

    rows: Array
    values: Array
    variances: Array


def posterior(
    kernel: SettingKernel, observed: Observed, wanted: Array, reference: Array | None = None
) -> Guess:
    """The prediction of a Gaussian process with mean zero (Rasmussen and Williams 2006, alg. 2.1).

    Args:
        kernel: Its covariance.
        observed: What is known.
        wanted: Rows to predict, (S, D).
        reference: A row, (1, D): the prediction is the difference from it.
    """
    rows, values, variances = observed
    root = cholesky(kernel(rows, rows) + np.diag(variances + 1e-9), lower=True)
    weights = solve_triangular(root, values, lower=True)
    explained = solve_triangular(root, kernel(rows, wanted), lower=True)
    mean = explained.T @ weights
    variance = kernel.variances(wanted) - np.square(explained).sum(axis=0)
    if reference is not None:
        base = solve_triangular(root, kernel(rows, reference), lower=True)
        mean = mean - base.T @ weights
        variance += kernel.variances(reference) - np.square(base).sum()
        variance -= 2 * (kernel(reference, wanted)[0] - (base.T @ explained)[0])
    return Guess(mean, np.sqrt(np.maximum(variance, 0.0)))


def _place(branch: Mapping[str, Distribution], values: Mapping[str, Any]) -> list[float]:
    place: list[float] = []
    for name, distribution in branch.items():
        if isinstance(distribution, CategoricalDistribution):
            place += [float(values[name] == choice) for choice in distribution.choices]
        else:
            place.append(_share(distribution, float(values[name])))
    return place


def _share(distribution: FloatDistribution | IntDistribution, value: float) -> float:
    """The position of a value in its range: 0 to 1, or beyond for values outside."""
    low, high = distribution.low, distribution.high
    if high == low:
        return 0.0
    if distribution.log:
        low, high, value = math.log(low), math.log(high), math.log(max(value, low / 10))
    return float((value - low) / (high - low))


def _width(branch: Mapping[str, Distribution]) -> int:
    return sum(
        len(d.choices) if isinstance(d, CategoricalDistribution) else 1 for d in branch.values()
    )
