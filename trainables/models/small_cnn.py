"""A small convolutional network for small images and small machines."""

from typing import Annotated

from torch import nn

from trainables.models.base import Classifier
from trainables.plugins.arguments import Range


def small_cnn(
    *,
    input_shape: tuple[int, int, int],
    num_classes: int,
    width: Annotated[int, Range(1)] = 16,
    dropout: Annotated[float, Range(0, 1, open_high=True)] = 0.0,
) -> Classifier:
    """Stages of 3x3 convolution, BatchNorm, ReLU and 2x2 max-pool, for images of at least 8x8.

    Stages are added until the feature maps are smaller than 4x4. Each has twice the channels of the
    previous one, up to ``4 * width``.

    Options:
        width: Channels of the first stage.
        dropout: Probability of dropping a feature before the head.
    """
    channels, height, columns = input_shape
    if min(height, columns) < 8:
        raise ValueError(f"small_cnn needs images of 8x8 or more, not {height}x{columns}")
    layers: list[nn.Module] = []
    out_channels = width
    while min(height, columns) >= 4:
        layers += [
            nn.Conv2d(channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        ]
        channels, height, columns = out_channels, height // 2, columns // 2
        out_channels = min(2 * channels, 4 * width)
    num_features = channels * height * columns
    encoder = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(dropout))
    return Classifier(encoder, nn.Linear(num_features, num_classes))
