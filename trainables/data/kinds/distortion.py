"""Resized random crops, colour distortion and erasing of image batches, on their device."""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from trainables.data.kinds.augmentation import constant

_LUMA: Final = (0.299, 0.587, 0.114)
_TO_YIQ: Final = (*_LUMA, 0.5959, -0.2746, -0.3213, 0.2115, -0.5227, 0.3112)
_TO_RGB: Final = tuple(
    torch.tensor(_TO_YIQ, dtype=torch.float64).view(3, 3).inverse().flatten().tolist()
)
_DRAWN: Final = 16  # random numbers of an image


@dataclass(frozen=True)
class Distortion:
    """What is done to an image, in this order; probabilities are those of one image.

    Attributes:
        least_area: Smallest share of the image that a crop keeps; its sides have a ratio of 3:4 to
            4:3. It is resized to the whole, and flipped with probability one half.
        jitter: Probability of new colours.
        strength: Brightness, contrast and saturation are multiplied by 1 ± strength.
        hue: Hue is turned by up to this share of the circle.
        grey: Probability of an image without colours.
        erased: Probability of a black rectangle, 2 to 33 % of the image, with sides of a ratio of
            3:10 to 10:3.
    """

    least_area: float
    jitter: float
    strength: float = 0.4
    hue: float = 0.0
    grey: float = 0.0
    erased: float = 0.0


DISTORTIONS: Final = {
    "imagenet": Distortion(0.08, jitter=1.0, erased=0.25),
    "simaugment": Distortion(0.2, jitter=0.8, hue=0.1, grey=0.2),
}
"""``imagenet``: CALS, appendix B; ``simaugment``: Chen et al. 2020 with the values of Khosla et al.
2020, as RefCal."""


def distort(
    images: Tensor,
    kind: Distortion,
    generator: torch.Generator | None = None,
    start: int = 0,
    total: int | None = None,
) -> Tensor:
    """Distorted images (N, C, H, W), uint8 like the given ones; see :meth:`Samples.prepare`."""
    drawn = torch.rand(
        len(images) if total is None else total, _DRAWN, generator=generator, device=images.device
    )[start : start + len(images)]
    area, ratio, top, left, mirrored, *colours = drawn.T
    box = _box(kind.least_area + (1 - kind.least_area) * area, _between(ratio, 3 / 4), top, left)
    found = resized_crop(images.float(), box, mirrored < 0.5)
    if images.shape[1] == 3:
        found = _new_colours(found, kind, torch.stack(colours[:6]))
    chance, area, ratio, top, left = colours[6:]
    erased = _box(0.02 + 0.31 * area, _between(ratio, 3 / 10), top, left)
    found = found.masked_fill(_inside(erased, found) & _of_images(chance < kind.erased), 0)
    return found.round_().clamp_(0, 255).to(torch.uint8)


def _between(drawn: Tensor, least: float) -> Tensor:
    """Ratios from `least` to its inverse, evenly in their logarithm."""
    return torch.exp((2 * drawn - 1) * -math.log(least))


def _box(area: Tensor, ratio: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Top, left, height and width (4, N) as shares; a side that is too long is cut."""
    height, width = (area / ratio).sqrt().clamp(max=1), (area * ratio).sqrt().clamp(max=1)
    return torch.stack([top * (1 - height), left * (1 - width), height, width])


def resized_crop(images: Tensor, box: Tensor, mirrored: Tensor) -> Tensor:
    """The parts of float images (N, C, H, W) in boxes (4, N), resized to the whole, bilinearly."""
    top, left, height, width = box
    zero = torch.zeros_like(top)
    signed = torch.where(mirrored, -width, width)
    across = torch.stack([signed, zero, 2 * left + width - 1], dim=1)
    down = torch.stack([zero, height, 2 * top + height - 1], dim=1)
    grid = nn.functional.affine_grid(
        torch.stack([across, down], dim=1), list(images.shape), align_corners=False
    )
    return nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _inside(box: Tensor, images: Tensor) -> Tensor:
    """Whether each pixel is in the box of its image, (N, 1, H, W)."""
    top, left, height, width = box[:, :, None]
    rows, columns = (
        (torch.arange(size, device=images.device) + 0.5) / size for size in images.shape[2:]
    )
    down = (rows >= top) & (rows < top + height)
    across = (columns >= left) & (columns < left + width)
    return torch.logical_and(down[:, None, :, None], across[:, None, None, :])


def _new_colours(images: Tensor, kind: Distortion, drawn: Tensor) -> Tensor:
    """Brightness, contrast, saturation, hue, then grey, of colour images from 0 to 255."""
    changed, grey = _of_images(drawn[0] < kind.jitter), _of_images(drawn[5] < kind.grey)
    factors = 1 + kind.strength * (2 * drawn[1:4] - 1)
    found = (images * _of_images(factors[0])).clamp(0, 255)
    found = blended(found, luma(found).mean((2, 3), keepdim=True), factors[1])
    found = blended(found, luma(found), factors[2])
    found = torch.where(changed, turned(found, kind.hue * (2 * drawn[4] - 1)), images)
    return torch.where(grey, luma(found), found)


def _of_images(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def luma(images: Tensor) -> Tensor:
    """Brightness (N, 1, H, W) of colour images."""
    weights = constant(_LUMA, images.dtype, images.device)
    return torch.einsum("nchw,c->nhw", images, weights)[:, None]


def blended(images: Tensor, other: Tensor, factors: Tensor) -> Tensor:
    """``factor`` (N,) times the images, and the rest of `other`."""
    return torch.lerp(other.expand_as(images), images, _of_images(factors)).clamp(0, 255)


def turned(images: Tensor, turns: Tensor) -> Tensor:
    """Images with their hue turned by shares (N,) of a circle, in the YIQ space."""
    to_yiq, to_rgb = (
        constant(each, images.dtype, images.device).view(3, 3) for each in (_TO_YIQ, _TO_RGB)
    )
    cos, sin = (2 * math.pi * turns).cos(), (2 * math.pi * turns).sin()
    turn = torch.zeros(len(turns), 3, 3, dtype=images.dtype, device=images.device)
    turn[:, 0, 0] = 1
    turn[:, 1, 1], turn[:, 1, 2], turn[:, 2, 1], turn[:, 2, 2] = cos, -sin, sin, cos
    whole = to_rgb @ turn @ to_yiq
    return torch.einsum("nkc,nchw->nkhw", whole, images).clamp(0, 255)
