"""AvUC: the setting of the authors' code for CIFAR-10 (Krishnan and Tickoo 2020)."""

from optuna.distributions import FloatDistribution

SPACE = {
    "lam": FloatDistribution(0.1, 10.0, log=True),
    "threshold": FloatDistribution(0.05, 2.0, log=True),
}
PUBLISHED = [{"lam": 3.0, "threshold": 1.0}]
