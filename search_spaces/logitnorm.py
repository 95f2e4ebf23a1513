"""LogitNorm (Wei et al. 2022)."""

from optuna.distributions import FloatDistribution

SPACE = {"temperature": FloatDistribution(0.005, 1.0, log=True)}
PUBLISHED = [{"temperature": 0.04}]
