"""AUC margin loss (Yuan et al. 2021)."""

from optuna.distributions import FloatDistribution

SPACE = {"margin": FloatDistribution(0.1, 2.0)}
PUBLISHED = [{"margin": 1.0}]
