"""The inverse map of a trial's loss, a candidate of its scaling."""

from collections.abc import Mapping
from typing import Any, get_args

from trainables.losses.registry import hyperparameters
from trainables.posthoc.inverse_maps import MAX_SORTED, InverseMap, InvertibleLoss


def inverse_of(loss: str, setting: Mapping[str, Any], num_classes: int) -> InverseMap | None:
    """The map of a loss with these hyperparameters; None if there is none, or it is the identity.

    A hyperparameter that `setting` lacks has the default of the loss.
    """
    names: tuple[InvertibleLoss, ...] = get_args(InvertibleLoss)
    name = next((each for each in names if each == loss), None)
    if name is None or (name == "dual_focal" and num_classes > MAX_SORTED):
        return None
    values = {**hyperparameters(name), **setting}
    found = InverseMap(name, float(values.get("gamma", 0.0)), float(values.get("lam", 0.0)))
    return None if found.gamma == 0 and name != "focal_sample_dependent" else found
