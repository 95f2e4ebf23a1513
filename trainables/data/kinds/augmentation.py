"""Random augmentation and normalisation of image batches, on their device."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

KINDS = ("none", "crop", "crop_flip")


@dataclass(frozen=True)
class Moves:
    """Random crops and flips of a batch of images, on their device.

    Attributes:
        pad: Padding on each side, in pixels.
        top: (N,), top edge of the crop in the padded image, in pixels; ``left`` likewise.
        mirrored: (N,), whether the crop is flipped horizontally; None if none is.
    """

    pad: int
    top: Tensor
    left: Tensor
    mirrored: Tensor | None


def draw_moves(
    images: Tensor,
    kind: str,
    generator: torch.Generator | None = None,
    start: int = 0,
    total: int | None = None,
) -> Moves | None:
    """Draws crops and flips of each image (N, C, H, W) of a batch; None for the kind ``none``.

    ``crop`` pads by an eighth of the height and takes a random crop of the original size.
    ``crop_flip`` also flips horizontally with probability one half. This is the standard
    augmentation of CIFAR: 4 pixels for 32x32 (K. He et al., Deep Residual Learning, 2016, section
    4.2). For the arguments see :meth:`Samples.prepare`.

    Raises:
        ValueError: ``kind`` is unknown, or ``images`` does not have four dimensions.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown augmentation {kind!r}; known: {', '.join(KINDS)}")
    if images.ndim != 4:
        raise ValueError(f"images must be (N, C, H, W), not {tuple(images.shape)}")
    if kind == "none":
        return None
    count, _, height, _ = images.shape
    device = images.device
    pad = height // 8
    drawn = (len(images) if total is None else total, 1)
    part = slice(start, start + count)
    corners = torch.randint(0, 2 * pad + 1, (2, *drawn), generator=generator, device=device)
    top, left = corners[:, part, 0]
    mirrored = None
    if kind == "crop_flip":
        mirrored = torch.rand(drawn, generator=generator, device=device)[part, 0] < 0.5
    return Moves(pad, top, left, mirrored)


def move(images: Tensor, moves: Moves | None, fill: int = 0) -> Tensor:
    """Applies crops and flips to images (N, C, H, W), without changing shape and dtype.

    ``fill`` is the value of the padding. The result is channels last in memory.
    """
    if moves is None:
        return images
    count, channels, height, width = images.shape
    pad, left = moves.pad, moves.left
    around = (0, 0, pad, pad, pad, pad)
    padded = nn.functional.pad(images.permute(0, 2, 3, 1), around, value=fill)
    sources, source = padded[None], torch.zeros_like(left)
    if moves.mirrored is not None:
        sources, source = torch.stack([padded, padded.flip(2)]), moves.mirrored.long()
        left = torch.where(moves.mirrored, 2 * pad - left, left)
    # Whole rows at a time, several times faster than single pixels.
    rows = sources.flatten(3).unfold(3, width * channels, channels)
    image, down = (torch.arange(n, device=images.device) for n in (count, height))
    wanted = source[:, None], image[:, None], moves.top[:, None] + down, left[:, None]
    return rows[wanted].view(count, height, width, channels).permute(0, 3, 1, 2)


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Scales uint8 images to 0..1, subtracts ``mean`` and divides by ``std``, per channel.

    The result is float32, with the shape, device and memory layout of ``images``.
    """
    if images.dtype != torch.uint8:
        raise TypeError(f"images must be uint8, not {images.dtype}")
    pixels = images.float()
    scale, shift = (
        constant(tuple(each), torch.float32, images.device)
        for each in (
            (1 / (255 * spread) for spread in std),
            (-centre / spread for centre, spread in zip(mean, std, strict=True)),
        )
    )
    if pixels.is_contiguous() or not pixels.is_contiguous(memory_format=torch.channels_last):
        return pixels.mul_(scale.view(-1, 1, 1)).add_(shift.view(-1, 1, 1))
    # As rows of W * C numbers, because C channels alone are too few for SIMD instructions.
    rows = pixels.permute(0, 2, 3, 1).view(*images.shape[::2], -1)
    rows.mul_(scale.repeat(images.shape[3])).add_(shift.repeat(images.shape[3]))
    return pixels


def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A cached tensor (N,) of constants, which avoids a transfer for each batch."""
    # An exported program stores its own constants.
    make = torch.tensor if torch.compiler.is_compiling() else _kept
    return make(values, dtype=dtype, device=device)


_kept = lru_cache(maxsize=64)(torch.tensor)
