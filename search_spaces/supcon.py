"""Supervised contrastive loss (Khosla et al. 2020; RefCal, eq. 4)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {
    "temperature": FloatDistribution(0.02, 1.0, log=True)
}
PUBLISHED: Final[list[dict[str, float]]] = [{"temperature": 0.1}]
