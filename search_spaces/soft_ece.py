"""Soft-binned ECE (Karandikar et al. 2021); the first setting is the default of this project."""

from optuna.distributions import FloatDistribution

SPACE = {
    "lam": FloatDistribution(0.1, 10.0, log=True),
    "temperature": FloatDistribution(1e-4, 0.1, log=True),
}
PUBLISHED = [{"lam": 1.0, "temperature": 0.01}]
