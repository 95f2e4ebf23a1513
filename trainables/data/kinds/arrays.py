"""Images and arrays of numbers as kinds of sample."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from trainables.contract.config import AugmentationName
from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs, Stored

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Images(Samples):
    """Images of one size: uint8, (N, C, H, W), C-contiguous; ``shape`` is channels, height, width.

    ``mean`` and ``std`` are those of each channel of the training images, on the scale 0..1.
    """

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: AugmentationName = "none"

    default_model: ClassVar[str] = "small_cnn"
    stored: ClassVar[str] = "uint8"
    augmentations: ClassVar[tuple[AugmentationName, ...]] = get_args(AugmentationName)

    def __post_init__(self) -> None:
        _check_statistics(self.mean, self.std, self.shape[0])

    @classmethod
    def measured(cls, inputs: Stored, augmentation: AugmentationName = "none") -> Images:
        """Creates this kind of sample with mean and std of training images (N, C, H, W)."""
        channels, height, width = inputs.shape[1:]
        mean, std = channel_statistics(inputs)
        return cls((channels, height, width), mean, std, augmentation)

    def __str__(self) -> str:
        channels, height, width = self.shape
        return f"images of {channels} x {height} x {width} (channels, height, width)"

    def encode(self, raw: Stored) -> Stored:
        """Streamed images stay on disk."""
        return raw

    def shown(self, row: Inputs) -> str | None:
        from PIL import Image

        if len(row) not in (1, 3):
            return None
        buffer = io.BytesIO()
        Image.fromarray(row[0] if len(row) == 1 else row.transpose(1, 2, 0)).save(buffer, "PNG")
        return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"

    def prepare(
        self,
        batch: Tensor,
        augmentation: AugmentationName = "none",
        generator: torch.Generator | None = None,
        start: int = 0,
        total: int | None = None,
    ) -> Tensor:
        """Crops of ``crop`` and ``crop_flip`` are padded with black."""
        from trainables.data.kinds.augmentation import draw_moves, move
        from trainables.data.kinds.distortion import DISTORTIONS, distort

        if (kind := DISTORTIONS.get(augmentation)) is not None:
            return self.normalise(distort(batch, kind, generator, start, total))
        return self.normalise(move(batch, draw_moves(batch, augmentation, generator, start, total)))

    def normalise(self, batch: Tensor) -> Tensor:
        from trainables.data.kinds.augmentation import normalise

        return normalise(batch, self.mean, self.std)


@dataclass(frozen=True)
class SegmentedImages(Images):
    """Images with a class for each pixel: like :class:`Images`, with masks as labels."""

    default_model: ClassVar[str] = "small_fcn"
    augmentations: ClassVar[tuple[AugmentationName, ...]] = ("none", "crop", "crop_flip")
    in_words: ClassVar[str] = "images with a class of each pixel"
    each_pixel: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"{super().__str__()} with a class of each pixel"


@dataclass(frozen=True)
class Arrays(Samples):
    """Arrays of numbers of one shape (spectrograms, signals, features): float32, (N, C, ...).

    The first axis of ``shape`` is channels, or features; ``mean`` and ``std`` have one value for
    each.
    """

    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    default_model: ClassVar[str] = "mlp"

    def __post_init__(self) -> None:
        _check_statistics(self.mean, self.std, self.shape[0])

    @classmethod
    def measured(cls, inputs: Inputs) -> Arrays:
        """Creates this kind of sample with mean and std of training arrays (N, C, ...)."""
        axes = tuple(axis for axis in range(inputs.ndim) if axis != 1)
        mean = inputs.mean(axes, dtype=np.float64)
        std = inputs.std(axes, dtype=np.float64)
        # A constant channel has no information; it becomes 0.
        return cls(
            inputs.shape[1:], tuple(mean.tolist()), tuple(np.where(std > 0, std, 1).tolist())
        )

    @classmethod
    def unscaled(cls, shape: tuple[int, ...]) -> Arrays:
        """Creates this kind of sample without normalisation."""
        return cls(shape, (0.0,) * shape[0], (1.0,) * shape[0])

    def __str__(self) -> str:
        return f"arrays of {' x '.join(map(str, self.shape))} numbers"

    def normalise(self, batch: Tensor) -> Tensor:
        import torch

        from trainables.data.kinds.augmentation import constant

        shape = (-1,) + (1,) * (batch.ndim - 2)
        centre, spread = (
            constant(each, torch.float32, batch.device).view(shape)
            for each in (self.mean, self.std)
        )
        return (batch - centre) / spread


def channel_statistics(images: Stored) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel over uint8 (N, C, H, W), on the scale 0..1."""
    if isinstance(images, np.ndarray):
        pieces = [channel_sums(images[i : i + 1024]) for i in range(0, len(images), 1024)]
        total, squares = np.sum(pieces, axis=0)
    else:
        total, squares = images.sums()
    count = 255 * (images.size / images.shape[1])
    mean = total / count
    std = np.sqrt(np.maximum(squares / (255 * count) - np.square(mean), 0))
    # A constant channel has no information; a std of one grey level keeps it finite.
    return tuple(mean.tolist()), tuple(np.maximum(std, 1 / 255).tolist())


def channel_sums(images: Inputs) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sums of the values and of their squares per channel, (C,) each, of uint8 (N, C, H, W)."""
    # Contiguous by channel, ten times faster than other orders.
    planes = np.ascontiguousarray(images.swapaxes(0, 1)).reshape(images.shape[1], -1)
    squares = np.multiply(planes, planes, dtype=np.uint16)
    return planes.sum(1, dtype=np.int64), squares.sum(1, dtype=np.int64)


def _check_statistics(mean: tuple[float, ...], std: tuple[float, ...], count: int) -> None:
    if len(mean) != count or len(std) != count:
        raise ValueError(
            f"mean and std need one number for each of {count} channels, "
            f"not {len(mean)} and {len(std)}"
        )
    if not all(deviation > 0 for deviation in std):
        raise ValueError(f"std must be above 0, not {std}")
