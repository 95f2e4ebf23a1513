"""A value with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.influence import mean_interval, share_interval

LEVEL: Final = 0.95


@dataclass(frozen=True)
class Measured:
    """A value and its interval, whose ends are NaN where none is known.

    `corrected` is the estimate that the interval is about, where noise puts `value` outside.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    corrected: float | None = None

    @property
    def inside(self) -> bool:
        """Whether the interval has the value; an end that is NaN excludes nothing."""
        return not (self.value < self.low or self.value > self.high)


Metrics = Mapping[str, Measured]


def mean_of(
    values: Tensor, clusters: Clusters | None, unseen: tuple[float, float] | None = None
) -> Measured:
    """A mean over samples (N,) with its interval, see `mean_interval`."""
    return Measured(float(values.mean()), *mean_interval(values, LEVEL, clusters, unseen))


def share_where(right: Tensor, clusters: Clusters | None, level: float = LEVEL) -> Measured:
    """The share of ones in ones and zeros (N,) with its interval, see `share_interval`."""
    return Measured(float(right.double().mean()), *share_interval(right, level, clusters))
