"""Margin-based label smoothing (Liu et al. 2022): margin 10 for images, 6 for text."""

from optuna.distributions import FloatDistribution

SPACE = {"margin": FloatDistribution(1.0, 20.0), "lam": FloatDistribution(0.01, 1.0, log=True)}
PUBLISHED = [{"margin": 10.0, "lam": 0.1}, {"margin": 6.0, "lam": 0.1}]
