"""Kinds of sample: how they are checked, augmented and normalised, and their default models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from trainables.contract.config import AugmentationName
from trainables.data.core.types import Inputs, Stored

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Samples(ABC):
    """The kind of sample in a dataset, with all code that depends on it.

    A split stores samples in one array, one row each. A batch is a tensor of some rows, on the
    training device.

    Attributes:
        shape: Shape of one sample as model input.
        default_model: The model of a sweep that does not name one.
        in_words: The kind of sample in messages; if empty, the name of the class.
        augmentations: The augmentations that :meth:`prepare` supports.
        mixable: Whether samples can be interpolated, as Mixup requires.
        encodes: Whether rows depend on the training part, such as its words or levels.
        each_pixel: Whether each pixel has a class, which requires segmentation models.
        augmentation: The usual training augmentation of this data, one of ``augmentations``.
        model_dtype: Dtype of the model input.
        stored: Dtype of the rows of a split.
    """

    shape: tuple[int, ...]
    default_model: ClassVar[str]
    in_words: ClassVar[str] = ""
    model_dtype: ClassVar[str] = "float32"
    stored: ClassVar[str] = "float32"
    augmentations: ClassVar[tuple[AugmentationName, ...]] = ("none",)
    mixable: ClassVar[bool] = True
    encodes: ClassVar[bool] = False
    each_pixel: ClassVar[bool] = False
    augmentation: AugmentationName = "none"

    @abstractmethod
    def __str__(self) -> str:
        """The kind in a few words, for messages."""

    def check(self, inputs: Stored) -> None:
        """Raises ``TypeError`` for a wrong dtype, ``ValueError`` for a wrong shape."""
        self.check_array(inputs, self.stored)

    def encode(self, raw: Any) -> Stored:
        """Converts samples as read to rows of a split; the default returns them unchanged."""
        return np.asarray(raw)

    def unseen(self, raw: Any) -> tuple[str, ...]:
        """Sentences about values of samples as read that do not occur in the training part."""
        return ()

    def check_array(self, inputs: Stored, dtype: str, shape: tuple[int, ...] | None = None) -> None:
        """Checks dtype and row shape (by default that of a sample); raises like :meth:`check`."""
        if inputs.dtype != dtype:
            raise TypeError(f"{self} must be {dtype}, not {inputs.dtype}")
        if inputs.shape[1:] != (self.shape if shape is None else shape):
            raise ValueError(f"{self} are expected, not an array of shape {inputs.shape}")

    def prepare(
        self,
        batch: Tensor,
        augmentation: AugmentationName = "none",
        generator: torch.Generator | None = None,
        start: int = 0,
        total: int | None = None,
    ) -> Tensor:
        """Model inputs (N, *shape) from rows (N, ...) of a split: augmented, then normalised.

        Args:
            batch: (N, ...), in the split's dtype, on any device.
            augmentation: One of ``augmentations``; drawn independently for each sample.
            generator: Random generator on the batch's device.
            start: Offset of the rows in a batch that several workers share.
            total: Size of that batch. Random numbers are drawn for all of it, so the result does
                not depend on the number of workers. None if the rows are the whole batch.
        """
        return self.normalise(batch)

    def listed(self) -> str:
        """The features by name, for a person; empty if they have no names."""
        return ""

    def shown(self, row: Inputs) -> str | None:
        """A row to display: words, or an image as a ``data:`` URI; None if there is neither."""
        return None

    def normalise(self, batch: Tensor) -> Tensor:
        """Model inputs (N, *shape) from rows (N, ...), without augmentation; by default these."""
        return batch
