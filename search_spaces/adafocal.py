"""AdaFocal (Ghosh et al. 2022)."""

from optuna.distributions import FloatDistribution

SPACE = {"lam": FloatDistribution(0.1, 10.0, log=True)}
PUBLISHED = [{"lam": 1.0}]
