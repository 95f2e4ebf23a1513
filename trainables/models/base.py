"""The interface of models: an encoder to features, and a linear head to logits."""

from typing import Any, Literal, overload

import torch
from torch import Tensor, nn


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


def run_once(module: nn.Module, inputs: Tensor) -> Any:
    """The output in evaluation mode, without gradients; the module's mode stays."""
    training = module.training
    try:
        with torch.no_grad():  # tensors of inference mode could not be used in training later
            return module.eval()(inputs)
    finally:
        module.train(training)


def he_initialised(model: Classifier) -> Classifier:
    """The model, with the weights of each convolution drawn from N(0, 2 / fan out).

    K. He et al., Delving Deep into Rectifiers, 2015, section 2.2.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
