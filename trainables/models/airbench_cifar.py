"""A network for CIFAR that trains within minutes."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.models.base import Classifier
from trainables.plugins.arguments import Range

# Directions along which 2x2 patches of natural images are nearly uncorrelated: luminance and two
# opponent colours, each as mean, horizontal, vertical and diagonal difference. The variances are
# those of the normalised training images of CIFAR-10.
_COLOURS = ((1.0, 1.0, 1.0), (1.0, 0.0, -1.0), (1.0, -2.0, 1.0))
_PATTERNS = ((1, 1, 1, 1), (1, -1, 1, -1), (1, 1, -1, -1), (1, -1, -1, 1))
_VARIANCES = (
    (10.1, 0.342, 0.400, 0.0544),
    (0.778, 0.00404, 0.00601, 0.00024),
    (0.173, 0.00169, 0.00224, 0.00014),
)
_SMALLEST_VARIANCE = 5e-4
_FEATURE_SCALE = 1 / 9


def airbench_cifar(
    *, input_shape: tuple[int, int, int], num_classes: int, width: Annotated[int, Range(1)] = 64
) -> Classifier:
    """The network of airbench94: 2 million weights, a fifth of the operations of a ResNet-18.

    A fixed convolution whitens 2x2 patches. Three stages of two 3x3 convolutions with BatchNorm and
    GELU follow, with a 2x2 max-pool after the first convolution, and a global max-pool (K. Jordan,
    94% on CIFAR-10 in 3.29 Seconds on a Single GPU, 2024, section 3). Unlike in the paper, the
    whitening filters are those of natural images, because a network is built without access to the
    data, and BatchNorm learns its scale. Images have 1 or 3 channels and at least 8x8 pixels.

    Options:
        width: Channels of the first stage; the others have four times as many.
    """
    channels, height, columns = input_shape
    if channels not in (1, 3) or min(height, columns) < 8:
        raise ValueError(
            "airbench_cifar needs images of 1 or 3 channels and 8x8 or more, not "
            f"{channels} of {height}x{columns}"
        )
    whitening = _Whitening(channels)
    layers: list[nn.Module] = [whitening, nn.GELU()]
    size, out_channels = min(height, columns) - 1, whitening.num_filters
    for stage_width in (width, 4 * width, 4 * width):
        pools = size >= 2
        layers += [
            _convolution(out_channels, stage_width),
            *([nn.MaxPool2d(2)] if pools else []),
            nn.BatchNorm2d(stage_width),
            nn.GELU(),
            _convolution(stage_width, stage_width),
            nn.BatchNorm2d(stage_width),
            nn.GELU(),
        ]
        size, out_channels = (size // 2 if pools else size), stage_width
    encoder = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), _Scaled())
    return Classifier(encoder, nn.Linear(out_channels, num_classes))


class _Whitening(nn.Module):
    """Whitened 2x2 patches, with variance 1 in each direction, and their negatives; plus a bias."""

    weight: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        colours = torch.tensor(_COLOURS)[:channels, :channels]
        colours = colours / colours.norm(dim=1, keepdim=True)
        patterns = torch.tensor(_PATTERNS) / 2
        variances = torch.tensor(_VARIANCES)[:channels]
        if channels == 1:  # a third of the variance of three equal channels
            variances = variances / 3
        filters = torch.einsum("ac,bp->abcp", colours, patterns)
        filters = filters / (variances + _SMALLEST_VARIANCE).sqrt()[:, :, None, None]
        filters = filters.reshape(-1, channels, 2, 2)
        self.num_filters = 2 * len(filters)
        self.register_buffer("weight", torch.cat([filters, -filters]))
        self.bias = nn.Parameter(torch.zeros(self.num_filters))

    def forward(self, images: Tensor) -> Tensor:
        return F.conv2d(images, self.weight, self.bias)


class _Scaled(nn.Module):
    def forward(self, features: Tensor) -> Tensor:
        return features * _FEATURE_SCALE


def _convolution(channels: int, width: int) -> nn.Conv2d:
    """A 3x3 convolution, initialised as close to the identity as possible."""
    layer = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:channels])
    return layer
