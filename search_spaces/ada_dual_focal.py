"""AdaDualFocal (Tao et al. 2023, section 5.2)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"lam": FloatDistribution(0.1, 10.0, log=True)}
PUBLISHED: Final[list[dict[str, float]]] = [{"lam": 1.0}]
