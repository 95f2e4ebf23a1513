"""Confidence penalty (Pereyra et al. 2017; CALS)."""

from optuna.distributions import FloatDistribution

SPACE = {"lam": FloatDistribution(0.01, 1.0, log=True)}
PUBLISHED = [{"lam": 0.1}]
