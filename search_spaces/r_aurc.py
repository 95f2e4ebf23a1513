"""Regularised AURC (Zhou et al., r-AURC, tables 3, 9, 10)."""

from optuna.distributions import CategoricalDistribution, FloatDistribution

SPACE = {
    "lam": FloatDistribution(0.0, 1.0),
    "epsilon": FloatDistribution(0.005, 0.2, log=True),
    "confidence": CategoricalDistribution(("max_probability", "margin", "negative_entropy")),
}


def published(num_classes: int | None) -> list[dict[str, object]]:
    """ε = 0.05 for CIFAR-10, ε = 0.01 for CIFAR-100 and Tiny-ImageNet."""
    strengths = (0.01, 0.05) if num_classes is not None and num_classes >= 100 else (0.05, 0.01)
    return [
        {"lam": 0.5, "epsilon": epsilon, "confidence": confidence}
        for epsilon in strengths
        for confidence in ("max_probability", "margin", "negative_entropy")
    ]
