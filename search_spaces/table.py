"""The search space and the published settings of each loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.distributions import FloatDistribution as Range

Setting = dict[str, Any]


class Space(NamedTuple):
    """What to search of a loss.

    ``ranges`` maps hyperparameters to Optuna distributions. ``published`` are the settings to try
    first, each with a value for exactly these hyperparameters; or a function that returns them, if
    they depend on the number of classes, which may be None.
    """

    ranges: Mapping[str, BaseDistribution]
    published: Sequence[Setting] | Callable[[int | None], Sequence[Setting]]


def _each(name: str, *values: float) -> list[Setting]:
    """A setting for each value of the only hyperparameter."""
    return [{name: value} for value in values]


def _focal_calibration(num_classes: int | None) -> list[Setting]:
    """All published settings; those for a dataset with this number of classes come first."""
    own = {
        4: [(4.0, 3.0)],  # AG News
        10: [(4.0, 1.5), (2.0, 0.5)],  # CIFAR-10
        20: [(5.0, 4.5)],  # 20 Newsgroups
        100: [(2.0, 0.5), (4.0, 1.5), (3.0, 0.5)],  # CIFAR-100
        200: [(3.0, 0.5)],  # Tiny-ImageNet
    }.get(num_classes or 0, [])
    others = [(3.0, 0.5), (2.0, 0.5), (4.0, 1.5), (5.0, 4.5), (4.0, 3.0), (4.0, 4.0)]
    return [{"gamma": gamma, "lam": lam} for gamma, lam in dict.fromkeys([*own, *others])]


def _has_many(num_classes: int | None) -> bool:
    """Whether there are as many classes as in CIFAR-100, so its settings come first."""
    return num_classes is not None and num_classes >= 100


def _kde_xe(num_classes: int | None) -> list[Setting]:
    """λ = 0.3 for CIFAR-10, λ = 0.5 for CIFAR-100, with the default bandwidth."""
    weights = (0.5, 0.3) if _has_many(num_classes) else (0.3, 0.5)
    return [{"lam": lam, "bandwidth": 0.02} for lam in weights]


_CONFIDENCES: Final = ("max_probability", "margin", "negative_entropy")


def _r_aurc(num_classes: int | None) -> list[Setting]:
    """ε = 0.05 for CIFAR-10, ε = 0.01 for CIFAR-100 and Tiny-ImageNet."""
    strengths = (0.01, 0.05) if _has_many(num_classes) else (0.05, 0.01)
    return [
        {"lam": 0.5, "epsilon": epsilon, "confidence": confidence}
        for epsilon in strengths
        for confidence in _CONFIDENCES
    ]


SPACES: Final[dict[str, Space]] = {
    # Tao et al. 2023, section 5.2
    "ada_dual_focal": Space({"lam": Range(0.1, 10.0, log=True)}, _each("lam", 1.0)),
    # Ghosh et al. 2022
    "adafocal": Space({"lam": Range(0.1, 10.0, log=True)}, _each("lam", 1.0)),
    # Yuan et al. 2021
    "aucm": Space({"margin": Range(0.1, 2.0)}, _each("margin", 1.0)),
    "brier": Space({}, [{}]),
    # Liu et al. 2023, table 4: margin 10 for images, 6 for text
    "cals_alm": Space(
        {
            "margin": Range(1.0, 20.0),
            "rho": Range(0.1, 10.0, log=True),
            "growth": Range(1.05, 2.0),
        },
        [{"margin": margin, "rho": 1.0, "growth": 1.2} for margin in (10.0, 6.0)],
    ),
    # Liu et al. 2023: margin 10 for images, 6 for text
    "cals_hr": Space({"margin": Range(1.0, 20.0)}, _each("margin", 10.0, 6.0)),
    # Cheng and Vasconcelos 2022; an order of magnitude around the published weights
    "cpc": Space(
        {
            "lam_discrimination": Range(0.1, 100.0, log=True),
            "lam_exclusion": Range(0.1, 10.0, log=True),
        },
        [{"lam_discrimination": 10.0, "lam_exclusion": 1.0}],
    ),
    # Moon et al. 2020
    "crl": Space({"lam": Range(0.1, 5.0, log=True)}, _each("lam", 1.0)),
    "cross_entropy": Space({}, [{}]),
    # Tao et al. 2023: settings for CIFAR-10, CIFAR-100 and Tiny-ImageNet
    "dual_focal": Space(
        {"gamma": Range(0.0, 10.0)}, _each("gamma", 5.0, 4.5, 2.6, 4.0, 6.1, 3.9, 2.3)
    ),
    # Pereyra et al. 2017; CALS
    "ecp": Space({"lam": Range(0.01, 1.0, log=True)}, _each("lam", 0.1)),
    # Lin et al. 2017; Mukhoti et al. 2020
    "focal": Space({"gamma": Range(0.0, 10.0)}, _each("gamma", 3.0, 1.0, 2.0, 5.0)),
    # Liang et al. 2024 (FCL), appendix A.10
    "focal_calibration": Space(
        {"gamma": Range(0.0, 10.0), "lam": Range(0.0, 5.0)}, _focal_calibration
    ),
    # Mukhoti et al. 2020
    "focal_sample_dependent": Space({}, [{}]),
    # Wang et al. 2021; r-AURC, table 4. Above about 3.6, the gradient changes sign for some p_y.
    "inverse_focal": Space({"gamma": Range(0.5, 3.5)}, _each("gamma", 2.0, 1.0, 1.5, 3.0)),
    # Popordanoska et al. 2022, with the weights in section 5 of r-AURC
    "kde_xe": Space(
        {"lam": Range(0.01, 2.0, log=True), "bandwidth": Range(0.001, 0.5, log=True)}, _kde_xe
    ),
    # Szegedy et al. 2016; CALS, section 5.1
    "label_smoothing": Space({"alpha": Range(0.005, 0.3, log=True)}, _each("alpha", 0.05)),
    # Wei et al. 2022
    "logitnorm": Space({"temperature": Range(0.005, 1.0, log=True)}, _each("temperature", 0.04)),
    # Liu et al. 2022: margin 10 for images, 6 for text
    "mbls": Space(
        {"margin": Range(1.0, 20.0), "lam": Range(0.01, 1.0, log=True)},
        [{"margin": margin, "lam": 0.1} for margin in (10.0, 6.0)],
    ),
    # Hebbalaguppe et al. 2022
    "mdca": Space(
        {"gamma": Range(0.0, 5.0), "beta": Range(0.1, 50.0, log=True)},
        [{"gamma": 1.0, "beta": 1.0}],
    ),
    # Thulasidasan et al. 2019
    "mixup": Space({"alpha": Range(0.05, 1.0)}, _each("alpha", 0.2)),
    # Kumar et al. 2018; Liu et al. 2023 (CALS, appendix C)
    "mmce": Space({"lam": Range(0.1, 10.0, log=True)}, _each("lam", 2.0, 0.1)),
    # Zhou et al. (r-AURC), tables 3, 9, 10
    "r_aurc": Space(
        {
            "lam": Range(0.0, 1.0),
            "epsilon": Range(0.005, 0.2, log=True),
            "confidence": CategoricalDistribution(_CONFIDENCES),
        },
        _r_aurc,
    ),
    # Khosla et al. 2020; RefCal, eq. 4
    "supcon": Space({"temperature": Range(0.02, 1.0, log=True)}, _each("temperature", 0.1)),
}
