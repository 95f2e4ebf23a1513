"""Splits any module that ends in a linear layer into an encoder and a head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainables.models.base import Classifier, run_once
from trainables.plugins.arguments import describe_error

if TYPE_CHECKING:
    from trainables.data.core.samples import Samples


def as_classifier(model: nn.Module, inputs: Tensor, num_classes: int) -> Classifier:
    """Splits a module of logits (N, K) before its last linear layer; the module is modified.

    That layer is found by passing two samples, ``inputs``, through the module. The module must
    return the output tensor of the layer itself, so that nothing (such as a softmax) follows it. A
    :class:`Classifier` is returned unchanged.

    Raises:
        ValueError: The module does not end in a linear layer, does not accept such samples, or has
            a different number of outputs.
    """
    if isinstance(model, Classifier):
        return model
    given: dict[nn.Linear, tuple[Tensor, Tensor]] = {}

    def look(layer: nn.Module, received: tuple[Tensor, ...], returned: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        given[layer] = received[0], returned

    layers = {layer: path for path, layer in model.named_modules() if isinstance(layer, nn.Linear)}
    hooks = [layer.register_forward_hook(look) for layer in layers]
    try:
        logits = _evaluated(model, inputs)
    finally:
        for hook in hooks:
            hook.remove()
    heads = [layer for layer, (_, returned) in given.items() if returned is logits]
    if not heads or given[heads[0]][0].dim() != 2:
        raise ValueError(
            f"the output of {type(model).__name__} is not that of a linear layer on features "
            "(N, D); end it in nn.Linear(D, num_classes), with no softmax after it, or return a "
            "Classifier(encoder, head)"
        )
    head, path = heads[0], layers[heads[0]]
    if head.out_features != num_classes:
        raise ValueError(
            f"{type(model).__name__} gives {head.out_features} logits, while the data have "
            f"{num_classes} classes; a builder that takes num_classes is given it"
        )
    if path == "":
        return Classifier(nn.Identity(), head)
    parent, _, leaf = path.rpartition(".")
    setattr(model.get_submodule(parent), leaf, nn.Identity())
    classifier = Classifier(model, head)
    if _evaluated(model, inputs).shape != (len(inputs), head.in_features):
        raise ValueError(
            f"{type(model).__name__} uses its last linear layer in more than one place; return a "
            "Classifier(encoder, head)"
        )
    return classifier


def check_batches(model: Classifier, inputs: Tensor) -> None:
    """Check that features of one sample and in training mode are as for ``inputs``, two samples.

    Raises ``ValueError`` if not, as after ``squeeze()``, or with auxiliary outputs.
    """
    encoder, kind = model.encoder, type(model.encoder).__name__
    with torch.random.fork_rng(devices=()):
        two = _evaluated(encoder, inputs)
        for found, count, when in (
            (two, 2, "two samples"),
            (_evaluated(encoder, inputs[:1]), 1, "one sample"),
            (_evaluated(encoder, inputs, training=True), 2, "training mode"),
        ):
            if not isinstance(found, Tensor):
                raise ValueError(
                    f"{kind} returns {type(found).__name__} in {when}; allowed: the output of its "
                    "last layer, a tensor; turn off auxiliary outputs"
                )
            if found.shape != (expected := (count, *two.shape[1:])):
                raise ValueError(
                    f"before its last layer, {kind} returns shape {tuple(found.shape)} for {when}; "
                    f"expected {expected}. squeeze() needs the dimension to remove"
                )


def no_input(input_shape: tuple[int, ...], samples: Samples | None) -> Tensor:
    """Two samples of zeros, in the dtype of the model's input."""
    dtype = torch.float32 if samples is None else getattr(torch, samples.model_dtype)
    return torch.zeros((2, *input_shape), dtype=dtype)


def _evaluated(model: nn.Module, inputs: Tensor, training: bool = False) -> Any:
    try:
        return run_once(model, inputs, training)
    except Exception as error:  # a user's module may raise anything
        how = "one sample" if len(inputs) == 1 else "samples"
        mode = " in training mode" if training else ""
        raise ValueError(
            f"{type(model).__name__} cannot take {how} of shape {tuple(inputs.shape[1:])}{mode}: "
            f"{describe_error(error)}"
        ) from error
