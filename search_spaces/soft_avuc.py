"""S-AvUC (Karandikar et al. 2021); κ and τ of the first setting are the authors' defaults."""

from optuna.distributions import FloatDistribution

SPACE = {
    "lam": FloatDistribution(0.1, 10.0, log=True),
    "kappa": FloatDistribution(0.05, 0.95),
    "temperature": FloatDistribution(0.01, 10.0, log=True),
}
PUBLISHED = [{"lam": 1.0, "kappa": 0.5, "temperature": 1.0}]
