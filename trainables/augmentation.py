"""Preparation of image batches on the device they live on: random augmentation, normalisation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

KINDS = ("none", "crop", "crop_flip")


def augment(
    images: Tensor,
    kind: str,
    generator: torch.Generator | None = None,
    start: int = 0,
    total: int | None = None,
) -> Tensor:
    """Augments each image of a batch independently.

    ``crop`` pads with zeros by an eighth of the height and crops at random to the old size;
    ``crop_flip`` also mirrors left to right with probability one half (the usual augmentation of
    CIFAR: 4 pixels for 32x32; K. He et al., Deep Residual Learning, 2016, section 4.2).

    Args:
        images: (N, C, H, W), any dtype.
        kind: ``"none"``, ``"crop"`` or ``"crop_flip"``.
        generator: On the device of ``images``; equal states give equal results.
        start: Where in their batch the images begin, if they are a part of one.
        total: Size of that batch. Chance is drawn for all of it, so that its parts are augmented
            as the whole would be.

    Returns:
        A tensor of the same shape, dtype and device, channels last in memory; ``images`` itself
        if ``kind`` is ``"none"``.

    Raises:
        ValueError: ``kind`` is unknown, or ``images`` has not four dimensions.
    """
    moves = draw_moves(images, kind, generator, start, total)
    return images if moves is None else move(images, moves)


@dataclass(frozen=True)
class Moves:
    """Where each pixel of moved images comes from, on their device.

    Attributes:
        pad: How far images are padded on each side first.
        rows: (N, H), in the padded images.
        columns: (N, W), likewise.
    """

    pad: int
    rows: Tensor
    columns: Tensor


def draw_moves(
    images: Tensor,
    kind: str,
    generator: torch.Generator | None = None,
    start: int = 0,
    total: int | None = None,
) -> Moves | None:
    """How :func:`augment` moves images; None if it leaves them as they are. See there."""
    if kind not in KINDS:
        raise ValueError(f"unknown augmentation {kind!r}; known: {', '.join(KINDS)}")
    if images.ndim != 4:
        raise ValueError(f"images must be (N, C, H, W), not {tuple(images.shape)}")
    if kind == "none":
        return None
    count, _, height, width = images.shape
    device = images.device
    pad = height // 8
    drawn = (len(images) if total is None else total, 1)
    part = slice(start, start + count)
    offsets = torch.randint(0, 2 * pad + 1, (2, *drawn), generator=generator, device=device)[
        :, part
    ]
    rows = offsets[0] + torch.arange(height, device=device)
    columns = offsets[1] + torch.arange(width, device=device)
    if kind == "crop_flip":
        flipped = torch.rand(drawn, generator=generator, device=device)[part] < 0.5
        columns = torch.where(flipped, columns.flip(1), columns)
    return Moves(pad, rows, columns)


def move(images: Tensor, moves: Moves, fill: int = 0) -> Tensor:
    """Moves images.

    Args:
        images: (N, C, H, W), any dtype.
        moves: Of images of as many and as large.
        fill: What they are padded with.

    Returns:
        See :func:`augment`.
    """
    pad, rows, columns = moves.pad, moves.rows, moves.columns
    padded = torch.nn.functional.pad(images, (pad, pad, pad, pad), value=fill)
    batch = torch.arange(len(images), device=images.device)
    # Advanced indices around the channel slice put channels last: (N, H, W, C).
    cropped = padded[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Scales uint8 images to 0..1, subtracts ``mean`` and divides by ``std``, per channel.

    Args:
        images: (N, C, H, W), uint8.
        mean: C numbers on the scale 0..1.
        std: Likewise, above 0.

    Returns:
        float32, of the same shape, on the same device.

    Raises:
        TypeError: ``images`` is not uint8.
    """
    if images.dtype != torch.uint8:
        raise TypeError(f"images must be uint8, not {images.dtype}")
    scale, shift = _scale_and_shift(tuple(mean), tuple(std), images.device)
    return images.float().mul_(scale).add_(shift)


@lru_cache(maxsize=16)  # made anew for each batch, they would cost a GPU a transfer
def _scale_and_shift(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    centre, spread = (torch.tensor(each, dtype=torch.float64) for each in (mean, std))
    scale, shift = 1 / (255 * spread), -centre / spread
    return tuple(each.float().view(-1, 1, 1).to(device) for each in (scale, shift))  # type: ignore[return-value]
