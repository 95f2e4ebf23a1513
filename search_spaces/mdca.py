"""MDCA (Hebbalaguppe et al. 2022)."""

from optuna.distributions import FloatDistribution

SPACE = {"gamma": FloatDistribution(0.0, 5.0), "beta": FloatDistribution(0.1, 50.0, log=True)}
PUBLISHED = [{"gamma": 1.0, "beta": 1.0}]
