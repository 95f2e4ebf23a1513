"""Focal calibration loss (Liang et al. 2024, FCL, appendix A.10)."""

from optuna.distributions import FloatDistribution

SPACE = {"gamma": FloatDistribution(0.0, 10.0), "lam": FloatDistribution(0.0, 5.0)}
PUBLISHED = [
    {"gamma": 3.0, "lam": 0.5},
    {"gamma": 2.0, "lam": 0.5},
    {"gamma": 4.0, "lam": 1.5},
    {"gamma": 5.0, "lam": 4.5},
    {"gamma": 4.0, "lam": 3.0},
    {"gamma": 4.0, "lam": 4.0},
]
