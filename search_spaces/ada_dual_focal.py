"""AdaDualFocal (Tao et al. 2023, section 5.2)."""

from optuna.distributions import FloatDistribution

SPACE = {"lam": FloatDistribution(0.1, 10.0, log=True)}
PUBLISHED = [{"lam": 1.0}]
