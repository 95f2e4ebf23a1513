"""Label smoothing (Szegedy et al. 2016; CALS, section 5.1)."""

from optuna.distributions import FloatDistribution

SPACE = {"alpha": FloatDistribution(0.005, 0.3, log=True)}
PUBLISHED = [{"alpha": 0.05}]
