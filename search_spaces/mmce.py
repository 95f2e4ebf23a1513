"""MMCE (Kumar et al. 2018)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"lam": FloatDistribution(0.1, 10.0, log=True)}
PUBLISHED: Final[list[dict[str, float]]] = [{"lam": 2.0}]
