"""Confidence penalty (Pereyra et al. 2017; CALS)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"lam": FloatDistribution(0.01, 1.0, log=True)}
PUBLISHED: Final[list[dict[str, float]]] = [{"lam": 0.1}]
