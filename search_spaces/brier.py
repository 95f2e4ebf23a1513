"""Brier score: no hyperparameters to search."""

from collections.abc import Mapping
from typing import Final

from optuna.distributions import BaseDistribution

SPACE: Final[Mapping[str, BaseDistribution]] = {}
PUBLISHED: Final[list[dict[str, float]]] = [{}]
