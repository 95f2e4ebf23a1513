"""Any image model of timm (PyTorch Image Models), as ``timm/<model name>``."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.models.base import Classifier, run_once
from trainables.plugins.arguments import Range, did_you_mean

Probability = Annotated[float, Range(0, 1, open_high=True)]


def timm_builder(timm_name: str) -> Callable[..., Classifier]:
    """The builder of one model of timm; ``ValueError`` if there is none."""
    if not timm.is_model(timm_name):
        raise ValueError(
            f"unknown model 'timm/{timm_name}'{did_you_mean(timm_name, timm.list_models())}; "
            "timm.list_models() names all"
        )
    return partial(timm_model, timm_name)


def timm_model(
    timm_name: str,
    *,
    input_shape: tuple[int, int, int],
    num_classes: int,
    pretrained: bool = False,
    drop_rate: Probability = 0.0,
    drop_path_rate: Probability | None = None,
) -> Classifier:
    """A model of timm with a new linear head on its pooled features.

    Models with a fixed image size are built for that of the data.

    Options:
        pretrained: Start from the published weights, downloaded unless they are in the cache.
        drop_rate: Probability of dropping a feature before the head.
        drop_path_rate: Probability of skipping a residual branch, if the model supports it.
    """
    config = timm.get_pretrained_cfg(timm_name, allow_unregistered=True)
    sized: dict[str, object] = (
        {"img_size": input_shape[1:]} if config and config.fixed_input_size else {}
    )
    try:
        encoder = timm.create_model(
            timm_name,
            pretrained=pretrained,
            num_classes=0,
            in_chans=input_shape[0],
            drop_rate=0.0,
            drop_path_rate=drop_path_rate,
            **sized,
        )
        num_features = _count_features(encoder, input_shape)
        if drop_path_rate and not _draws_random_numbers(encoder, input_shape):
            raise ValueError("the model has no residual branch that it could skip")
    # Models of timm raise errors of any type: AssertionError, TypeError, RuntimeError ...
    except Exception as error:
        raise ValueError(
            f"model 'timm/{timm_name}' cannot be built for {input_shape} images (channels, height, "
            f"width) with pretrained={pretrained}, drop_path_rate={drop_path_rate}: {error}"
        ) from error
    if drop_rate:  # timm's own dropout is in some models part of the head, which is replaced
        encoder.register_forward_hook(partial(_drop_features, probability=drop_rate))
    return Classifier(encoder, nn.Linear(num_features, num_classes))


def _drop_features(
    encoder: nn.Module, inputs: object, features: Tensor, *, probability: float
) -> Tensor:
    return F.dropout(features, probability, encoder.training)


def _draws_random_numbers(encoder: nn.Module, input_shape: tuple[int, int, int]) -> bool:
    """Whether training draws random numbers; weights, statistics and generator stay as they are.

    The output would not show it: new residual branches of timm may add 0.
    """
    with torch.random.fork_rng(devices=()), torch.no_grad():
        for module in encoder.train().modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.eval()  # keeps the running statistics; one image has none
        before = torch.get_rng_state()
        encoder(torch.zeros(1, *input_shape))
        drawn = not torch.equal(before, torch.get_rng_state())
    encoder.train()
    return drawn


def _count_features(encoder: nn.Module, input_shape: tuple[int, int, int]) -> int:
    # The meaning of num_features differs between models, so measure the output.
    features = run_once(encoder, torch.zeros(1, *input_shape))
    if features.ndim != 2:
        raise ValueError(f"its features have shape {tuple(features.shape)} instead of (1, D)")
    return int(features.shape[1])
