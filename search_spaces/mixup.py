"""Mixup (Thulasidasan et al. 2019)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"alpha": FloatDistribution(0.05, 1.0)}
PUBLISHED: Final[list[dict[str, float]]] = [{"alpha": 0.2}]
