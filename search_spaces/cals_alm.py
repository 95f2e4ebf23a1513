"""CALS-ALM (Liu et al. 2023, table 4): margin 10 for images, 6 for text."""

from optuna.distributions import FloatDistribution

SPACE = {
    "margin": FloatDistribution(1.0, 20.0),
    "rho": FloatDistribution(0.1, 10.0, log=True),
    "growth": FloatDistribution(1.05, 2.0),
}
PUBLISHED = [
    {"margin": 10.0, "rho": 1.0, "growth": 1.2},
    {"margin": 6.0, "rho": 1.0, "growth": 1.2},
]
