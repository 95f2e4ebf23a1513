"""MDCA (Hebbalaguppe et al. 2022)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {
    "gamma": FloatDistribution(0.0, 5.0),
    "beta": FloatDistribution(0.1, 50.0, log=True),
}
PUBLISHED: Final[list[dict[str, float]]] = [{"gamma": 1.0, "beta": 1.0}]
