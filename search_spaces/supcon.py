"""Supervised contrastive loss (Khosla et al. 2020; RefCal, eq. 4)."""

from optuna.distributions import FloatDistribution

SPACE = {"temperature": FloatDistribution(0.02, 1.0, log=True)}
PUBLISHED = [{"temperature": 0.1}]
