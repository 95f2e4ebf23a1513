"""The interface of segmentation models, which classify each pixel."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.models.base import Classifier, run_once
from trainables.plugins.arguments import describe_error


class Segmenter(Classifier):
    """A classifier of pixels: an encoder to (usually coarser) feature maps, and a linear head.

    The encoder maps images (N, C, H, W) to features (N, D, h, w); ``input_shape`` is C, H and W.
    The head outputs K logits at each position of a feature map. They are interpolated bilinearly to
    the size of the image, without aligning corners.

    Raises:
        ValueError: The encoder does not accept such images, or does not match the head.
    """

    down: Tensor
    across: Tensor

    def __init__(
        self, encoder: nn.Module, head: nn.Linear, input_shape: tuple[int, int, int]
    ) -> None:
        super().__init__(encoder, head)
        depth, *coarse = _shape_of_features(encoder, input_shape)
        if depth != head.in_features:
            raise ValueError(
                f"the encoder gives {depth} features, while the head takes {head.in_features}"
            )
        for name, few, many in zip(("down", "across"), coarse, input_shape[1:], strict=True):
            self.register_buffer(name, _interpolation(few, many), persistent=False)

    def classify(self, features: Tensor) -> Tensor:
        """Logits (N, K, H, W) of features (N, D, h, w)."""
        logits: Tensor = self.head(features.movedim(1, -1)).movedim(-1, 1)
        # Matrix products, because torch's interpolation has nondeterministic gradients on GPUs.
        if logits.shape[2] != len(self.down):
            logits = self.down.to(logits.dtype) @ logits
        if logits.shape[3] != len(self.across):
            logits = logits @ self.across.to(logits.dtype).T
        return logits


def _interpolation(few: int, many: int) -> Tensor:
    """Matrix (many, few) of bilinear interpolation from few to many positions."""
    single = torch.eye(few).unsqueeze(0)
    return F.interpolate(single, size=many, mode="linear", align_corners=False)[0].T.contiguous()


def _shape_of_features(encoder: nn.Module, input_shape: tuple[int, int, int]) -> tuple[int, ...]:
    try:
        features = run_once(encoder, torch.zeros(1, *input_shape))
    except Exception as error:  # a user's module may raise anything
        raise ValueError(
            f"the encoder cannot take images of shape {input_shape}: {describe_error(error)}"
        ) from None
    if features.dim() != 4:
        raise ValueError(
            f"the encoder gives features of shape {tuple(features.shape)}; expected (N, D, h, w)"
        )
    return tuple(features.shape[1:])
