"""Focal loss (Lin et al. 2017; Mukhoti et al. 2020)."""

from optuna.distributions import FloatDistribution

SPACE = {"gamma": FloatDistribution(0.0, 10.0)}
PUBLISHED = [{"gamma": gamma} for gamma in (3.0, 1.0, 2.0, 5.0)]
