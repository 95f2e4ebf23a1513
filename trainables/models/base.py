"""The interface of models: an encoder to features, and a linear head to logits."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import torch
from torch import Tensor, nn

logger = logging.getLogger("calsweep")
R = TypeVar("R")


class Classifier(nn.Module):
    """Encoder and linear head, which are separate because some losses need the features.

    Args:
        encoder: Maps inputs (N, C, H, W) to features (N, D).
        head: Linear layer from D features to K logits.
    """

    def __init__(self, encoder: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    @overload
    def forward(self, inputs: Tensor, return_features: Literal[False] = False) -> Tensor: ...
    @overload
    def forward(self, inputs: Tensor, return_features: Literal[True]) -> tuple[Tensor, Tensor]: ...
    def forward(
        self, inputs: Tensor, return_features: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Returns logits (N, K), or logits and features (N, D) if ``return_features``."""
        features = self.encoder(inputs)
        logits = self.classify(features)
        return (logits, features) if return_features else logits

    def classify(self, features: Tensor) -> Tensor:
        """Logits (N, K) of features (N, D)."""
        logits: Tensor = self.head(features)
        return logits


def run_once(module: nn.Module, inputs: Tensor, training: bool = False) -> Any:
    """The output without gradients, by default in evaluation mode; mode and buffers stay.

    See :func:`on_usable_device` for the device.
    """
    before = module.training
    buffers = {name: each.clone() for name, each in module.named_buffers()} if training else {}

    def run(inputs: Tensor) -> Any:
        with torch.no_grad():  # tensors of inference mode could not be used in training later
            return module.train(training)(inputs)

    try:
        return on_usable_device(run, module, inputs)
    finally:
        module.train(before)
        for name, value in buffers.items():
            module.get_buffer(name).copy_(value)


def on_usable_device(run: Callable[[Tensor], R], module: nn.Module, inputs: Tensor) -> R:
    """Run with these inputs of a module, both on the CPU.

    If that fails, as for modules that need a GPU, both are moved to a GPU of this machine for
    another try.
    """
    try:
        return run(inputs)
    except Exception:
        if (gpu := first_gpu()) is None:
            raise
        try:
            module.to(gpu)
            return run(inputs.to(gpu))
        except Exception as error:  # the first error is reported
            logger.debug("nor on a GPU", exc_info=error)
        finally:
            module.to(torch.device("cpu"))
        raise


def first_gpu() -> torch.device | None:
    """A GPU that this process can use, if there is one."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else None


def pooled(layers: Sequence[nn.Module], channels: int, num_classes: int) -> Classifier:
    """Layers of images, the mean of their channels over the pixels, and a head."""
    encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Classifier(encoder, nn.Linear(channels, num_classes))


def he_initialised(model: Classifier) -> Classifier:
    """The model, with the weights of each convolution drawn from N(0, 2 / fan out).

    K. He et al., Delving Deep into Rectifiers, 2015, section 2.2.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
