"""Inverse focal loss (Wang et al. 2021; r-AURC, table 4).

For γ above about 3.6, the gradient changes sign for some p_y, so the range ends below that.
"""

from optuna.distributions import FloatDistribution

SPACE = {"gamma": FloatDistribution(0.5, 3.5)}
PUBLISHED = [{"gamma": gamma} for gamma in (2.0, 1.0, 1.5, 3.0)]
