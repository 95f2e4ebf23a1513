"""ResNets for CIFAR and other small images.

K. He et al., Deep Residual Learning for Image Recognition, 2016, but with a 3x3 first convolution
and no max-pool after it, as in the calibration literature (J. Mukhoti et al., Calibrating Deep
Neural Networks using Focal Loss, 2020). Weights have torch's default initialisation.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from trainables.models.base import Classifier, pooled


def resnet18_cifar(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """ResNet-18 for small images: 11 million weights."""
    return _resnet(_basic, (2, 2, 2, 2), 1, input_shape, num_classes)


def resnet34_cifar(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """ResNet-34 for small images: 21 million weights."""
    return _resnet(_basic, (3, 4, 6, 3), 1, input_shape, num_classes)


def resnet50_cifar(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """ResNet-50 for small images: 24 million weights."""
    return _resnet(_bottleneck, (3, 4, 6, 3), 4, input_shape, num_classes)


def resnet101_cifar(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """ResNet-101 for small images: 43 million weights."""
    return _resnet(_bottleneck, (3, 4, 23, 3), 4, input_shape, num_classes)


def resnet110_bottleneck_cifar(
    *, input_shape: tuple[int, int, int], num_classes: int
) -> Classifier:
    """The network called ResNet-110 in the code of the calibration literature: 46 million weights.

    3, 4, 26 and 3 bottleneck blocks (J. Mukhoti et al., 2020, and derived code). ResNet-110 of
    K. He et al. is ``resnet110_cifar``.
    """
    return _resnet(_bottleneck, (3, 4, 26, 3), 4, input_shape, num_classes)


class Residual(nn.Module):
    """ReLU of the sum of a branch and a shortcut."""

    def __init__(self, branch: nn.Sequential, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns (N, C, H, W)."""
        return F.relu(self.branch(inputs) + self.shortcut(inputs))


def convolution(channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, and BatchNorm."""
    return nn.Sequential(
        nn.Conv2d(channels, out_channels, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(out_channels),
    )


def _basic(channels: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        convolution(channels, width, 3, stride), nn.ReLU(), convolution(width, width, 3)
    )


def _bottleneck(channels: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        convolution(channels, width, 1),
        nn.ReLU(),
        convolution(width, width, 3, stride),
        nn.ReLU(),
        convolution(width, 4 * width, 1),
    )


def _resnet(
    branch: Callable[[int, int, int], nn.Sequential],
    depths: tuple[int, ...],
    expansion: int,
    input_shape: tuple[int, int, int],
    num_classes: int,
) -> Classifier:
    layers: list[nn.Module] = [convolution(input_shape[0], 64, 3), nn.ReLU()]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 * 2**stage
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            same = stride == 1 and channels == width * expansion
            path, out = branch(channels, width, stride), width * expansion
            shortcut = nn.Identity() if same else convolution(channels, out, 1, stride)
            layers.append(Residual(path, shortcut))
            channels = out
    return pooled(layers, channels, num_classes)
