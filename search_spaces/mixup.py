"""Mixup (Thulasidasan et al. 2019)."""

from optuna.distributions import FloatDistribution

SPACE = {"alpha": FloatDistribution(0.05, 1.0)}
PUBLISHED = [{"alpha": 0.2}]
