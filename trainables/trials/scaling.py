"""The scaling of a trial's network, with the inverse map of its loss as a candidate."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from torch import Tensor

from trainables.contract.config import ScalingWay
from trainables.contract.setting import Setting
from trainables.files.rows import Rows
from trainables.losses.registry import hyperparameters
from trainables.posthoc.chosen import fit_scaling
from trainables.posthoc.inverse_maps import MAX_SORTED, InverseMap, InvertibleLoss
from trainables.posthoc.scaling import Scaling

_KNOWN: Final = ("gamma", "lam")  # hyperparameters that the maps take; of others, the defaults


def fit_network_scaling(
    validation: Rows, setting: Setting, way: ScalingWay
) -> tuple[Scaling, Tensor]:
    """The scaling with which a network is handed out, and its cross-fitted logits (N, K), float64.

    From the network's predictions on the validation split; errors are those of `fit_scaling`.
    """
    logits, labels = validation.tensors()
    inverse = inverse_of(setting.loss, setting.hyperparameters, logits.shape[1])
    return fit_scaling(logits.double(), labels, way, validation.units(), inverse)


def inverse_of(loss: str, setting: Mapping[str, Any], num_classes: int) -> InverseMap | None:
    """The map of a loss with these hyperparameters; None if none is known, or it is the identity.

    A hyperparameter that `setting` lacks has the default of the loss.
    """
    names: tuple[InvertibleLoss, ...] = get_args(InvertibleLoss)
    name = next((each for each in names if each == loss), None)
    if name is None or (name == "dual_focal" and num_classes > MAX_SORTED):
        return None
    usual = hyperparameters(name)
    if any(setting.get(key, usual[key]) != usual[key] for key in usual.keys() - _KNOWN):
        return None
    gamma, lam = (float({**usual, **setting}.get(key, 0.0)) for key in _KNOWN)
    return None if gamma == 0 and name != "focal_sample_dependent" else InverseMap(name, gamma, lam)
