"""Correctness ranking loss (Moon et al. 2020)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"lam": FloatDistribution(0.1, 5.0, log=True)}
PUBLISHED: Final[list[dict[str, float]]] = [{"lam": 1.0}]
