"""CALS with the heuristic rule (Liu et al. 2023): margin 10 for images, 6 for text."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"margin": FloatDistribution(1.0, 20.0)}
PUBLISHED: Final[list[dict[str, float]]] = [{"margin": 10.0}, {"margin": 6.0}]
