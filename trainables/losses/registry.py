"""Finds losses by name: built-in, from installed packages, or your own by dotted path."""

import inspect
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from torch import Tensor, nn

from trainables.contract.setting import loss_name
from trainables.losses.base import CalibrationLoss, Extra
from trainables.plugins.arguments import describe_error, did_you_mean
from trainables.plugins.components import Catalogue, type_hints

CATALOGUE: Final = Catalogue(
    kind="loss",
    group="calsweep.losses",
    form="Class",
    ours={
        "ada_dual_focal": "trainables.losses.adafocal:AdaDualFocal",
        "adafocal": "trainables.losses.adafocal:AdaFocal",
        "aucm": "trainables.losses.aucm:AUCMargin",
        "avuc": "trainables.losses.avuc:AccuracyVersusUncertainty",
        "brier": "trainables.losses.brier:Brier",
        "cals_alm": "trainables.losses.cals:AugmentedLagrangian",
        "cals_hr": "trainables.losses.cals:HeuristicMultipliers",
        "cpc": "trainables.losses.cpc:PairwiseConstraints",
        "crl": "trainables.losses.crl:CorrectnessRanking",
        "cross_entropy": "trainables.losses.cross_entropy:CrossEntropy",
        "dece": "trainables.losses.dece:DifferentiableCalibration",
        "dual_focal": "trainables.losses.dual_focal:DualFocal",
        "ecp": "trainables.losses.ecp:ConfidencePenalty",
        "focal": "trainables.losses.focal:Focal",
        "focal_calibration": "trainables.losses.focal_calibration:FocalCalibration",
        "focal_sample_dependent": "trainables.losses.focal:FocalSampleDependent",
        "inverse_focal": "trainables.losses.focal:InverseFocal",
        "kde_xe": "trainables.losses.kde_xe:KernelCalibration",
        "label_smoothing": "trainables.losses.cross_entropy:LabelSmoothing",
        "logitnorm": "trainables.losses.logitnorm:LogitNorm",
        "maxsup": "trainables.losses.maxsup:MaxSuppression",
        "mbls": "trainables.losses.mbls:MarginLabelSmoothing",
        "mdca": "trainables.losses.mdca:ClasswiseDifference",
        "mixup": "trainables.losses.mixup:Mixup",
        "mmce": "trainables.losses.mmce:MaximumMeanCalibration",
        "r_aurc": "trainables.losses.r_aurc:RegularizedAURC",
        "refinement": "trainables.losses.refinement:Refinement",
        "soft_avuc": "trainables.losses.avuc:SoftAccuracyVersusUncertainty",
        "soft_ece": "trainables.losses.soft_ece:SoftBinnedCalibration",
        "supcon": "trainables.losses.supcon:SupervisedContrastive",
    },
)


available_losses: Final = CATALOGUE.names
"""The names of built-in losses and those of installed packages, sorted."""


def make_loss(name: str, num_classes: int, **hyperparameters: Any) -> CalibrationLoss:
    """Creates a loss by name.

    Args:
        name: One of :func:`available_losses`, or ``package.module:Class`` (see :func:`loss_class`).
        num_classes: Number K of classes, at least 2.
        **hyperparameters: Values for the hyperparameters that :func:`hyperparameters` lists. The
            rest keep their defaults.

    Returns:
        A module, called as ``loss(logits, targets)``; see :meth:`CalibrationLoss.forward` for
            shapes and dtypes.

    Raises:
        ValueError: The name or a hyperparameter is unknown, or a value is not allowed.
        TypeError: A value has the wrong type.
    """
    kind = loss_class(name)
    known = _options(kind)
    for key in hyperparameters:
        if key not in known:
            listed = ", ".join(f"{k} (default {d!r})" for k, d in known.items()) or "none"
            raise ValueError(
                f"loss {name!r} has no hyperparameter {key!r}{did_you_mean(key, known)}; "
                f"it has: {listed}"
            )
    try:
        if issubclass(kind, CalibrationLoss):
            return kind(num_classes, **hyperparameters)
        if "num_classes" in inspect.signature(kind).parameters:
            hyperparameters["num_classes"] = num_classes
        return ModuleLoss(num_classes, kind(**hyperparameters))
    except Exception as error:  # a user's constructor may raise anything
        kind_of_error = TypeError if isinstance(error, TypeError) else ValueError
        raise kind_of_error(f"loss {name!r}: {describe_error(error)}") from error


def hyperparameters(name: str) -> dict[str, object]:
    """The hyperparameters of a loss and their defaults, from the signature of its constructor.

    Raises:
        ValueError: The name is unknown.
    """
    return _options(loss_class(name))


def integer_hyperparameters(name: str) -> frozenset[str]:
    """The hyperparameters that the constructor of the loss annotates as integers."""
    kind = loss_class(name)
    hints = type_hints(kind.__init__)
    return frozenset(key for key in _options(kind) if _is_integer(hints.get(key)))


def loss_class(name: str) -> type[nn.Module]:
    """The class of a loss; abbreviations of papers, such as ``FCL``, are names too.

    A dotted path ``package.module:Class`` names a subclass of :class:`CalibrationLoss`, or any
    ``nn.Module`` class that is called as ``module(logits, targets)`` and returns the mean over
    samples, such as ``torch.nn:MultiMarginLoss``. If its constructor has a parameter
    ``num_classes``, :func:`make_loss` passes it.

    Raises:
        ValueError: The name is unknown, the import fails, or the object is not a loss class.
    """
    found = CATALOGUE.find(loss_name(name))
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise ValueError(f"loss {name!r} must be a CalibrationLoss or nn.Module class: {found!r}")
    return found


class ModuleLoss(CalibrationLoss):
    """Adapter for a plain module, called as ``module(logits, targets)`` with the global batch."""

    source = "the user's own"
    formula = "module(logits, targets)"

    def __init__(self, num_classes: int, module: nn.Module) -> None:
        super().__init__(num_classes)
        self.module = module

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        value: Tensor = self.module(logits, targets)
        return value


def _is_integer(hint: Any) -> bool:
    """Whether a type hint is ``int``, ``Annotated[int, ...]`` or ``int | None``."""
    if get_origin(hint) in (Annotated, Union, UnionType):
        kinds = [kind for kind in get_args(hint) if isinstance(kind, type)]
        return int in kinds and float not in kinds
    return hint is int


def _options(kind: type[nn.Module]) -> dict[str, object]:
    return {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if name != "num_classes" and parameter.kind is not parameter.VAR_KEYWORD
    }
