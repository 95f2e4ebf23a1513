"""The refinement loss of RefCal has no hyperparameters."""

from optuna.distributions import BaseDistribution

SPACE: dict[str, BaseDistribution] = {}
PUBLISHED: list[dict[str, float]] = [{}]
