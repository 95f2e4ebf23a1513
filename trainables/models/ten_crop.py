"""Evaluation on ten crops of each image."""

from typing import Final

import torch
from torch import Tensor, nn

from trainables.models.base import Classifier
from trainables.models.segmenter import Segmenter

_SIDE: Final = 7 / 8  # of the image: 224 of 256


class TenCrop(nn.Module):
    """An encoder that, in evaluation, returns the mean of its features (N, D) of ten crops.

    They are the corners and the centre, 7/8 of each side, and their mirror images (Krizhevsky et
    al. 2012). With a linear head the logits are then means over the crops, too.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, D) of images (N, C, H, W)."""
        crops = [images] if self.training else ten_crops(images)
        return torch.stack([self.encoder(crop) for crop in crops]).mean(dim=0)


def on_ten_crops(classifier: Classifier, input_shape: tuple[int, ...]) -> Classifier:
    """The classifier of ten crops; ``ValueError`` unless it takes images, one class for each."""
    if isinstance(classifier, Segmenter) or len(input_shape) != 3:
        raise ValueError("ten_crop is for images with one prediction each")
    return Classifier(TenCrop(classifier.encoder), classifier.head)


def ten_crops(images: Tensor) -> list[Tensor]:
    """The crops of images (N, C, H, W), (N, C, 7/8 H, 7/8 W) each."""
    spare = [size - round(_SIDE * size) for size in images.shape[2:]]
    places = [(top, left) for top in (0, spare[0]) for left in (0, spare[1])]
    places.append((round(spare[0] / 2), round(spare[1] / 2)))
    height, width = (size - left for size, left in zip(images.shape[2:], spare, strict=True))
    return [
        each[:, :, top : top + height, left : left + width]
        for each in (images, images.flip(3))
        for top, left in places
    ]
