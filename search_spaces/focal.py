"""Focal loss (Lin et al. 2017; Mukhoti et al. 2020)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"gamma": FloatDistribution(0.0, 10.0)}
PUBLISHED: Final[list[dict[str, float]]] = [
    {"gamma": 3.0},
    {"gamma": 1.0},
    {"gamma": 2.0},
    {"gamma": 5.0},
]
