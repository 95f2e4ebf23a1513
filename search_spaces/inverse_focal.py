"""Inverse focal loss (Wang et al. 2021; r-AURC, table 4).

For γ above about 3.6, the gradient changes sign for some p_y, so the range ends below that.
"""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"gamma": FloatDistribution(0.5, 3.5)}
PUBLISHED: Final[list[dict[str, float]]] = [
    {"gamma": 2.0},
    {"gamma": 1.0},
    {"gamma": 1.5},
    {"gamma": 3.0},
]
