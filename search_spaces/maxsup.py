"""MaxSup: both ends of the authors' schedule of α (Zhou et al. 2025)."""

from optuna.distributions import FloatDistribution

SPACE = {"alpha": FloatDistribution(0.005, 0.5, log=True)}
PUBLISHED = [{"alpha": 0.1}, {"alpha": 0.2}]
