"""FLSD-53 is fixed by its paper (Mukhoti et al. 2020)."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {}
PUBLISHED: Final[list[dict[str, float]]] = [{}]
