"""Correctness ranking loss (Moon et al. 2020)."""

from optuna.distributions import FloatDistribution

SPACE = {"lam": FloatDistribution(0.1, 5.0, log=True)}
PUBLISHED = [{"lam": 1.0}]
