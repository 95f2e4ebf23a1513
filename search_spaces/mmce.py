"""MMCE: settings of Kumar et al. 2018, and of Liu et al. 2023 (CALS, appendix C)."""

from optuna.distributions import FloatDistribution

SPACE = {"lam": FloatDistribution(0.1, 10.0, log=True)}
PUBLISHED = [{"lam": 2.0}, {"lam": 0.1}]
