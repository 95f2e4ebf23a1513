"""Pairwise constraints (Cheng and Vasconcelos 2022).

The ranges extend an order of magnitude around the published weights.
"""

from optuna.distributions import FloatDistribution

SPACE = {
    "lam_discrimination": FloatDistribution(0.1, 100.0, log=True),
    "lam_exclusion": FloatDistribution(0.1, 10.0, log=True),
}
PUBLISHED = [{"lam_discrimination": 10.0, "lam_exclusion": 1.0}]
