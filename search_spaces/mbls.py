"""Margin-based label smoothing (Liu et al. 2022): margin 10 for images, 6 for text."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {
    "margin": FloatDistribution(1.0, 20.0),
    "lam": FloatDistribution(0.01, 1.0, log=True),
}
PUBLISHED: Final[list[dict[str, float]]] = [
    {"margin": 10.0, "lam": 0.1},
    {"margin": 6.0, "lam": 0.1},
]
