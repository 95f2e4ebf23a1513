"""Label smoothing (Szegedy et al. 2016; CALS, section 5.1)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"alpha": FloatDistribution(0.005, 0.3, log=True)}
PUBLISHED: Final[list[dict[str, float]]] = [{"alpha": 0.05}]
