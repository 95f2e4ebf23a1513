"""CALS-ALM (Liu et al. 2023, table 4): margin 10 for images, 6 for text."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {
    "margin": FloatDistribution(1.0, 20.0),
    "rho": FloatDistribution(0.1, 10.0, log=True),
    "growth": FloatDistribution(1.05, 2.0),
}
PUBLISHED: Final[list[dict[str, float]]] = [
    {"margin": 10.0, "rho": 1.0, "growth": 1.2},
    {"margin": 6.0, "rho": 1.0, "growth": 1.2},
]
