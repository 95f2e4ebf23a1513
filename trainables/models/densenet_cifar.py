"""DenseNets for CIFAR and other small images.

G. Huang et al., Densely Connected Convolutional Networks, 2017. Each layer gets the outputs of all
previous layers in its block. As in the paper, weights are initialised as in K. He et al., 2015 (fan
out).
"""

import torch
from torch import Tensor, nn

from trainables.models.base import Classifier, he_initialised, pooled


def densenet40_cifar(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """DenseNet-40 with growth rate 12, without bottlenecks or compression: 1.0 million weights.

    Three blocks of 12 layers (the paper's section 3, "Implementation Details").
    """
    return _densenet((12, 12, 12), 12, input_shape, num_classes)


def densenet121_cifar(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """DenseNet-121 with growth rate 32 for small images: 7.0 million weights.

    The paper's network for ImageNet (table 1), but with a 3x3 first convolution and no max-pool
    after it, as in the calibration literature (J. Mukhoti et al., Calibrating Deep Neural Networks
    using Focal Loss, 2020, and their code).
    """
    return _densenet((6, 12, 24, 16), 32, input_shape, num_classes, compact=True)


class _Layer(nn.Module):
    def __init__(self, channels: int, growth: int, *, bottleneck: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        if bottleneck:
            layers += [
                nn.Conv2d(channels, 4 * growth, 1, bias=False),
                nn.BatchNorm2d(4 * growth),
                nn.ReLU(inplace=True),
            ]
            channels = 4 * growth
        self.branch = nn.Sequential(*layers, nn.Conv2d(channels, growth, 3, padding=1, bias=False))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([inputs, self.branch(inputs)], dim=1)


def _densenet(
    depths: tuple[int, ...],
    growth: int,
    input_shape: tuple[int, int, int],
    num_classes: int,
    *,
    compact: bool = False,
) -> Classifier:
    """A compact one, DenseNet-BC, has bottlenecks, and half the channels between blocks."""
    channels = 2 * growth if compact else 16
    layers: list[nn.Module] = [nn.Conv2d(input_shape[0], channels, 3, padding=1, bias=False)]
    for block, depth in enumerate(depths):
        if block > 0:
            width = channels // 2 if compact else channels
            layers += [
                nn.BatchNorm2d(channels),
                nn.ReLU(inplace=True),
                nn.Conv2d(channels, width, 1, bias=False),
                nn.AvgPool2d(2),
            ]
            channels = width
        for _ in range(depth):
            layers.append(_Layer(channels, growth, bottleneck=compact))
            channels += growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    return he_initialised(pooled(layers, channels, num_classes))
