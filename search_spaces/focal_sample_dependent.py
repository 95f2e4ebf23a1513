"""FLSD-53 (Mukhoti et al. 2020): no hyperparameters to search."""

from optuna.distributions import BaseDistribution

SPACE: dict[str, BaseDistribution] = {}
PUBLISHED: list[dict[str, float]] = [{}]
