"""LogitNorm (Wei et al. 2022)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {
    "temperature": FloatDistribution(0.005, 1.0, log=True)
}
PUBLISHED: Final[list[dict[str, float]]] = [{"temperature": 0.04}]
