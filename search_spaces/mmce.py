"""MMCE (Kumar et al. 2018)."""

from optuna.distributions import FloatDistribution

SPACE = {"lam": FloatDistribution(0.1, 10.0, log=True)}
PUBLISHED = [{"lam": 2.0}]
