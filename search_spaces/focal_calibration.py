"""Focal calibration loss (Liang et al. 2024, FCL, appendix A.10)."""

from optuna.distributions import FloatDistribution

SPACE = {"gamma": FloatDistribution(0.0, 10.0), "lam": FloatDistribution(0.0, 5.0)}

_SETTINGS = [(3.0, 0.5), (2.0, 0.5), (4.0, 1.5), (5.0, 4.5), (4.0, 3.0), (4.0, 4.0)]
_BY_CLASSES = {
    4: [(4.0, 3.0)],  # AG News
    10: [(4.0, 1.5), (2.0, 0.5)],  # CIFAR-10
    20: [(5.0, 4.5)],  # 20 Newsgroups
    100: [(2.0, 0.5), (4.0, 1.5), (3.0, 0.5)],  # CIFAR-100
    200: [(3.0, 0.5)],  # Tiny-ImageNet
}


def published(num_classes: int | None) -> list[dict[str, object]]:
    """All published settings; those for a dataset with this number of classes come first."""
    own = _BY_CLASSES.get(num_classes or 0, [])
    settings = dict.fromkeys([*own, *_SETTINGS])
    return [{"gamma": gamma, "lam": lam} for gamma, lam in settings]
