"""Residual networks of three stages for CIFAR and other small images.

Three stages of n blocks of two 3x3 convolutions, with 16, 32 and 64 channels (times a width) at
full, half and quarter resolution; global average pooling; the head. As in all papers below, weights
are initialised as in K. He et al., Delving Deep into Rectifiers, 2015 (fan out).
"""

from collections.abc import Callable, Iterator
from typing import Annotated

from torch import Tensor, nn
from torch.nn import functional as F

from trainables.models.base import Classifier, he_initialised, pooled
from trainables.models.resnet_cifar import Residual, convolution
from trainables.plugins.arguments import Range
from trainables.plugins.extras import require_extra

Shape = tuple[int, int, int]
Block = Callable[[int, int, int], nn.Module]
Probability = Annotated[float, Range(0, 1, open_high=True)]


def resnet110_cifar(
    *, input_shape: Shape, num_classes: int, drop_path_rate: Probability = 0.0
) -> Classifier:
    """ResNet-110: 1.7 million weights.

    6n + 2 layers, n = 18; shortcuts have no weights (K. He et al., Deep Residual Learning for Image
    Recognition, 2016, section 4.2).

    Options:
        drop_path_rate: Probability of skipping the last residual branch in a training step, which
            falls linearly to that of the first; 0.5 is ResNet-110 (SD) of the calibration
            literature (G. Huang et al., Deep Networks with Stochastic Depth, 2016).
    """
    rates = [drop_path_rate * (block + 1) / 54 for block in range(54)]

    def block(channels: int, width: int, stride: int) -> nn.Module:
        shortcut = _Padded(channels, width, stride)
        return _post_activation(channels, width, stride, shortcut, rates.pop(0))

    return _post_activated(block, 18, 1, input_shape, num_classes)


def preresnet56_cifar(*, input_shape: Shape, num_classes: int) -> Classifier:
    """PreResNet-56: 0.85 million weights.

    6n + 2 layers, n = 9, with BatchNorm and ReLU before each convolution (K. He et al., Identity
    Mappings in Deep Residual Networks, 2016).
    """
    return _pre_activated(_PreActivation, 9, 1, input_shape, num_classes)


def wide_resnet26_10_cifar(*, input_shape: Shape, num_classes: int) -> Classifier:
    """Wide-ResNet-26-10 of the calibration literature: 36.5 million weights.

    6n + 2 layers, n = 4, with BatchNorm and ReLU after each convolution, and a convolution in the
    shortcut if the shape changes (J. Mukhoti et al., Calibrating Deep Neural Networks using Focal
    Loss, 2020, and their code).
    """
    return _post_activated(_projected, 4, 10, input_shape, num_classes)


def wide_resnet28_10_cifar(
    *, input_shape: Shape, num_classes: int, dropout: Probability = 0.0
) -> Classifier:
    """Wide-ResNet-28-10: 36.5 million weights.

    6n + 4 layers, n = 4, with BatchNorm and ReLU before each convolution (S. Zagoruyko and N.
    Komodakis, Wide Residual Networks, 2016).

    Options:
        dropout: Probability of dropping a value between the two convolutions of a block.
    """

    def block(channels: int, width: int, stride: int) -> nn.Module:
        return _PreActivation(channels, width, stride, dropout, activate_shortcut=True)

    return _pre_activated(block, 4, 10, input_shape, num_classes)


class _Padded(nn.Module):
    """A shortcut that drops every other pixel and zero-pads the channels, if the shape changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride, self.missing = stride, width - channels

    def forward(self, inputs: Tensor) -> Tensor:
        kept = inputs[:, :, :: self.stride, :: self.stride]
        before = self.missing // 2
        return F.pad(kept, (0, 0, 0, 0, before, self.missing - before))


def _post_activation(
    channels: int, width: int, stride: int, shortcut: nn.Module, drop_path_rate: float = 0.0
) -> Residual:
    branch = nn.Sequential(
        *convolution(channels, width, 3, stride),
        nn.ReLU(inplace=True),
        *convolution(width, width, 3),
    )
    if drop_path_rate:
        require_extra("drop_path_rate", "images", "torchvision")
        from torchvision.ops import StochasticDepth  # slow to import

        branch.append(StochasticDepth(drop_path_rate, mode="batch"))
    return Residual(branch, shortcut)


def _projected(channels: int, width: int, stride: int) -> nn.Module:
    same = stride == 1 and channels == width
    shortcut = nn.Identity() if same else convolution(channels, width, 1, stride)
    return _post_activation(channels, width, stride, shortcut)


class _PreActivation(nn.Module):
    """If the shape changes, the shortcut is a 1x1 convolution."""

    def __init__(
        self,
        channels: int,
        width: int,
        stride: int,
        dropout: float = 0.0,
        *,
        activate_shortcut: bool = False,
    ) -> None:
        super().__init__()
        self.activation = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.branch = nn.Sequential(
            _convolution(channels, width, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            _convolution(width, width),
        )
        same = stride == 1 and channels == width
        self.project = nn.Identity() if same else nn.Conv2d(channels, width, 1, stride, bias=False)
        self.activate_shortcut = activate_shortcut and not same

    def forward(self, inputs: Tensor) -> Tensor:
        activated = self.activation(inputs)
        shortcut = self.project(activated if self.activate_shortcut else inputs)
        result: Tensor = self.branch(activated) + shortcut
        return result


def _convolution(channels: int, width: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)


def _post_activated(
    block: Block, depth: int, widening: int, input_shape: Shape, num_classes: int
) -> Classifier:
    """A network whose blocks end in an activation."""
    first = (_convolution(input_shape[0], 16), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
    layers = [*first, *_three_stages(block, depth, widening)]
    return he_initialised(pooled(layers, 64 * widening, num_classes))


def _pre_activated(
    block: Block, depth: int, widening: int, input_shape: Shape, num_classes: int
) -> Classifier:
    """A network whose blocks begin with an activation."""
    width = 64 * widening
    layers = [_convolution(input_shape[0], 16), *_three_stages(block, depth, widening)]
    layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    return he_initialised(pooled(layers, width, num_classes))


def _three_stages(block: Block, depth: int, widening: int) -> Iterator[nn.Module]:
    """The blocks of stages of 16, 32 and 64 channels, times the widening."""
    channels = 16
    for stage in range(3):
        width = 16 * widening * 2**stage
        for index in range(depth):
            yield block(channels, width, 2 if stage > 0 and index == 0 else 1)
            channels = width
