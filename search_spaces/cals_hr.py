"""CALS with the heuristic rule (Liu et al. 2023): margin 10 for images, 6 for text."""

from optuna.distributions import FloatDistribution

SPACE = {"margin": FloatDistribution(1.0, 20.0)}
PUBLISHED = [{"margin": 10.0}, {"margin": 6.0}]
