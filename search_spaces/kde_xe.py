"""KDE-XE (Popordanoska et al. 2022), with the weights in section 5 of r-AURC."""

from optuna.distributions import FloatDistribution

SPACE = {
    "lam": FloatDistribution(0.01, 2.0, log=True),
    "bandwidth": FloatDistribution(0.001, 0.5, log=True),
}


def published(num_classes: int | None) -> list[dict[str, float]]:
    """λ = 0.3 for CIFAR-10, λ = 0.5 for CIFAR-100, with the default bandwidth."""
    weights = (0.5, 0.3) if num_classes is not None and num_classes >= 100 else (0.3, 0.5)
    return [{"lam": lam, "bandwidth": 0.02} for lam in weights]
