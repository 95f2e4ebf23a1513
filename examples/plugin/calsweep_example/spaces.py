"""The search space of ``sharp_cross_entropy``, and what to try first."""

from optuna.distributions import FloatDistribution

SPACE = {"sharpness": FloatDistribution(0.5, 2.0, log=True)}
PUBLISHED = [{"sharpness": 1.5}]
