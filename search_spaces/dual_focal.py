"""Dual focal loss (Tao et al. 2023): settings for CIFAR-10, CIFAR-100 and Tiny-ImageNet."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution, FloatDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {"gamma": FloatDistribution(0.0, 10.0)}
PUBLISHED: Final[list[dict[str, float]]] = [
    {"gamma": gamma} for gamma in (5.0, 4.5, 2.6, 4.0, 6.1, 3.9, 2.3)
]
