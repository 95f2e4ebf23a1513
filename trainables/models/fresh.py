"""Copies of an existing module with new random weights."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import nn


class Fresh:
    """A builder of copies of a module; ``reset_parameters()`` of its layers draws new weights.

    The weights of the given module are not used. So it is rejected with ``ValueError`` if they seem
    to matter: a layer has no ``reset_parameters()``, or values that it sets to constants (such as
    normalisation statistics and scales) differ, as in a trained module or one with a custom
    initialisation. Other differences cannot be detected.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = deepcopy(module)
        kind = type(module).__name__
        instead = (
            f"; give a function that builds one for each trial, such as model=lambda: {kind}(...)"
        )
        for path, layer in module.named_modules():
            own = any(True for _ in layer.parameters(recurse=False))
            if own and not hasattr(layer, "reset_parameters"):
                raise ValueError(
                    f"this {kind} cannot be built again: its part {path or kind!r} "
                    f"({type(layer).__name__}) has no reset_parameters(){instead}"
                )
        with torch.random.fork_rng(devices=[]):
            first, second = self().state_dict(), self().state_dict()
        for name, given in module.state_dict().items():
            if torch.equal(first[name], second[name]) and not torch.equal(first[name], given):
                raise ValueError(
                    f"the weights of this {kind} are not used, as each trial draws its own, and "
                    f"{name!r} shows that they are not freshly drawn{instead}"
                )

    def __call__(self) -> nn.Module:
        """A copy with new weights, from torch's default generator."""
        module = deepcopy(self._module)
        for layer in module.modules():
            draw: Callable[[], object] | None = getattr(layer, "reset_parameters", None)
            if draw is not None:
                draw()
        return module
