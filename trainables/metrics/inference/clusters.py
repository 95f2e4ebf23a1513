"""Clusters: rows that depend on each other, such as a patient's visits or an image's pixels.

A thousand pixels of an image contain far less information than a thousand images. Only clusters are
independent, so noise is estimated from sums over clusters. Their sizes differ, and a mean over rows
is a ratio of two sums; its jackknife pseudo-values, one per cluster, behave like independent
samples. Where large clusters dominate, the variance is known less well than the number of clusters
suggests: Student's t has the degrees of freedom that the sizes and the correlation within clusters
imply (as in Imbens and Kolesár 2016, "Robust standard errors in small samples").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainables.contract.metric_names import FEWEST_CLUSTERS
from trainables.metrics._inputs import check_numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Clusters:
    """The cluster of each of N rows.

    Attributes:
        of_row: Numbers (N,) from 0 to G - 1.
        alike: Whether rows of a cluster are alike. Otherwise each is one sample, and noise of
            samples is taken as normal.
    """

    of_row: NDArray[np.int64]
    alike: bool = True

    @cached_property
    def sizes(self) -> Array:
        """Number of rows of each cluster, (G,)."""
        return np.bincount(self.of_row).astype(np.float64)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def enough(self) -> bool:
        """Whether there are enough clusters for an interval."""
        return len(self) >= (FEWEST_CLUSTERS if self.alike else 2)

    @cached_property
    def _weights(self) -> Array:
        """Of the deviations of clusters in the pseudo-values, (G,); a constant for equal sizes."""
        return np.asarray((len(self) - 1) / np.maximum(self.sizes.sum() - self.sizes, _TINY))

    def take(self, rows: Tensor | slice) -> Clusters:
        """Of some of the rows, in their order."""
        of_row = self.of_row[rows if isinstance(rows, slice) else rows.cpu().numpy()]
        return Clusters(np.unique(of_row, return_inverse=True)[1])

    def sums(self, values: Array) -> Array:
        """Sums over the rows of each cluster, (..., G), of values (..., N)."""
        flat = values.reshape(-1, len(self.of_row))
        found = [np.bincount(self.of_row, each, len(self)) for each in flat]
        return np.asarray(np.stack(found).reshape(*values.shape[:-1], len(self)), np.float64)

    def pseudo_values(self, values: Array) -> Array:
        """Jackknife pseudo-values (..., G) of means over rows, from values (..., N).

        Their mean is the mean over rows, and their variance, divided by G, that of this mean.
        """
        mean = values.mean(axis=-1, keepdims=True)
        off = self.sums(values - mean) * self._weights
        return np.asarray(mean + off - off.mean(axis=-1, keepdims=True))

    def freedom(self, values: Array) -> float:
        """Degrees of freedom of the variance of the mean of values (N,), at least 1.

        They are infinite for single samples. The variance of a cluster's sum is taken as
        proportional to n (1 - r) + n² r, with n rows and the estimated correlation r.
        """
        if not self.alike:
            return math.inf
        centred = values - values.mean()
        squares = float((centred**2).sum())
        pairs = float((self.sizes * (self.sizes - 1)).sum())
        shared = (float((self.sums(centred) ** 2).sum()) - squares) / max(pairs, 1.0)
        correlation = np.clip(shared * len(values) / max(squares, _TINY), 0, 1)
        variance = self.sizes * (1 - correlation) + self.sizes**2 * correlation
        return max(1.0, float(variance.sum() ** 2 / (variance**2).sum()) - 1)

    def worth(self, values: Array) -> float:
        """Number of independent rows, at most N, whose mean would be as noisy; from values (N,)."""
        noise = float(self.pseudo_values(values).var(ddof=1)) / len(self) if len(self) > 1 else 0.0
        if noise == 0:  # all are equal
            return float(len(self))
        return min(float(len(values)), float(values.var()) / noise)

    def cell_sums(self, cell: NDArray[np.int64], values: Array, num_cells: int) -> csr_array:
        """Sums of values (N,) per cluster and cell, (G, C)."""
        from scipy.sparse import csr_array  # slow to import

        return csr_array((values, (self.of_row, cell)), shape=(len(self), num_cells))

    def covariance(self, sums: csr_array) -> Array:
        """Covariance (C, C) of the total of each cell divided by the number of rows.

        From sums (G, C) of values per cluster and cell, see :meth:`cell_sums`.
        """
        squared = self._squared_weights
        share = self._share(sums)
        across = np.outer(sums.T @ (squared * self.sizes), share)
        own = (sums.T @ sums.multiply(squared[:, None])).toarray()
        return np.asarray(
            own - across - across.T + np.outer(share, share) * float(squared @ self.sizes**2)
        )

    def variances(self, sums: csr_array) -> Array:
        """The diagonal (C,) of :meth:`covariance`."""
        squared = self._squared_weights
        share = self._share(sums)
        own = sums.power(2).T @ squared - 2 * share * (sums.T @ (squared * self.sizes))
        return np.asarray(np.maximum(own + share**2 * float(squared @ self.sizes**2), 0.0))

    @property
    def _squared_weights(self) -> Array:
        return np.asarray(self._weights**2 / (len(self) * (len(self) - 1)))

    def _share(self, sums: csr_array) -> Array:
        return np.asarray(sums.sum(axis=0) / self.sizes.sum()).ravel()


def clusters_of(ids: Tensor | None, count: int) -> Clusters | None:
    """Clusters from integers that are equal for rows of one cluster; None if all rows differ.

    Raises:
        TypeError: `ids` is no tensor of integers.
        ValueError: It has not `count` of them.
    """
    if ids is None:
        return None
    check_numbers("clusters", ids, "integers")
    if ids.shape != (count,):
        raise ValueError(f"clusters must have shape ({count},), got {tuple(ids.shape)}")
    values, of_row = np.unique(ids.cpu().numpy(), return_inverse=True)
    return None if len(values) == count else Clusters(of_row)
