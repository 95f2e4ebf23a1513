"""DECE (Bohdal et al. 2023); the published weight is that of the paper's meta-objective."""

from optuna.distributions import FloatDistribution

SPACE = {
    "lam": FloatDistribution(0.1, 10.0, log=True),
    "temperature": FloatDistribution(1e-3, 0.1, log=True),
}
PUBLISHED = [{"lam": 0.5, "temperature": 0.01}]
