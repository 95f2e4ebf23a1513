"""AUC margin loss (Yuan et al. 2021)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"margin": FloatDistribution(0.1, 2.0)}
PUBLISHED: Final[list[dict[str, float]]] = [{"margin": 1.0}]
