"""A small fully convolutional network for segmentation."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.data.kinds.arrays import SegmentedImages
from trainables.models.segmenter import Segmenter
from trainables.plugins.arguments import Range


def small_fcn(
    *,
    samples: SegmentedImages,
    num_classes: int,
    width: Annotated[int, Range(1)] = 16,
    depth: Annotated[int, Range(1)] = 2,
) -> Segmenter:
    """A small U-Net, with a 3x3 convolution, BatchNorm and ReLU at each resolution.

    Source: O. Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation,
    2015; with one convolution instead of two, and a quarter of the channels.

    Options:
        width: Channels at full resolution; they double whenever the resolution is halved.
        depth: Number of times that the resolution is halved; images are at least 2^depth wide.
    """
    if min(samples.shape[1:]) < 2**depth:
        raise ValueError(
            f"small_fcn of depth {depth} needs images of {2**depth}x{2**depth} or more, not "
            f"{samples.shape[1]}x{samples.shape[2]}"
        )
    encoder = _DownAndUp(samples.shape[0], width, depth)
    return Segmenter(encoder, nn.Linear(width, num_classes), samples.shape)


class _DownAndUp(nn.Module):
    def __init__(self, channels: int, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _layer(*pair) for pair in zip([channels, *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(
            _layer(coarse + fine, fine) for coarse, fine in zip(widths[1:], widths, strict=False)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Feature maps (N, width, H, W) of images (N, C, H, W)."""
        sizes: list[Tensor] = [self.down[0](images)]
        for layer in self.down[1:]:
            sizes.append(layer(F.max_pool2d(sizes[-1], 2)))
        found = sizes.pop()
        for layer, fine in zip(reversed(self.up), reversed(sizes), strict=True):
            wide: Tensor = F.interpolate(found, size=fine.shape[-2:], mode="nearest")
            found = layer(torch.cat([wide, fine], 1))
        return found


def _layer(channels: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )
