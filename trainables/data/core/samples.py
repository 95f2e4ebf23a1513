"""Kinds of sample: how each is checked, augmented, normalised, and which models read it.

A dataset carries one object of a subclass of :class:`Samples`. The training loop asks it and knows
no kind of sample by name.
"""

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
    """What the samples of a dataset are.

    A split holds them as one numpy array, a row for each; a batch is a tensor of some of its rows,
    on the device where it is trained.

    Attributes:
        shape: Of one sample as the model gets it.
        default_model: The model for a sweep that names none.
        in_words: What messages call such samples; empty, the name of the class.
        augmentations: What :meth:`prepare` can do to training batches.
        mixable: Whether there is a sample between any two, as Mixup needs it.
        encodes: Whether rows depend on the training part: on its words, or its levels.
        each_pixel: Whether each pixel has a class; for which there are models of their own.
        augmentation: The usual training augmentation of this data, one of ``augmentations``.
        model_dtype: Of what the model gets.
    """

    shape: tuple[int, ...]
    default_model: ClassVar[str]
    in_words: ClassVar[str] = ""
    model_dtype: ClassVar[str] = "float32"
    augmentations: ClassVar[tuple[AugmentationName, ...]] = ("none",)
    mixable: ClassVar[bool] = True
    encodes: ClassVar[bool] = False
    each_pixel: ClassVar[bool] = False
    augmentation: AugmentationName = "none"

    @abstractmethod
    def __str__(self) -> str:
        """The kind in a few words, for messages."""

    @abstractmethod
    def check(self, inputs: Stored) -> None:
        """Checks that an array holds samples of this kind.

        Raises:
            TypeError: It has another dtype.
            ValueError: It has another shape.
        """

    def encode(self, raw: Any) -> Stored:
        """Makes rows of a split of samples as they were read; here they are rows already."""
        return np.asarray(raw)

    def check_array(self, inputs: Stored, dtype: str, shape: tuple[int, ...] | None = None) -> None:
        """Checks the dtype, and the shape of a row (by default that of a sample).

        Raises:
            TypeError: It has another dtype.
            ValueError: It has another shape.
        """
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
        """Model inputs from rows of a split: augmented, then normalised.

        Args:
            batch: (N, ...), of the split's dtype, on any device.
            augmentation: One of ``augmentations``; drawn anew for each sample.
            generator: Of the random numbers, on the batch's device.
            start: Where the rows begin in a batch that several workers share.
            total: Size of that batch, for all of which chance is drawn, so that what becomes of a
                row does not depend on the number of workers; None, the rows are all of it.

        Returns:
            (N, *shape), on the same device.
        """
        return self.normalise(batch)

    def prepare_with(
        self,
        batch: Tensor,
        targets: Tensor,
        augmentation: AugmentationName = "none",
        generator: torch.Generator | None = None,
        start: int = 0,
        total: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`prepare`, with targets; targets for places in a sample are augmented alike.

        Args:
            batch: See :meth:`prepare`.
            targets: (N, ...), of the samples.
            augmentation: See :meth:`prepare`.
            generator: Likewise.
            start: Likewise.
            total: Likewise.

        Returns:
            (N, *shape), and targets of the same shape as before.
        """
        return self.prepare(batch, augmentation, generator, start, total), targets

    def shown(self, row: Inputs) -> str | None:
        """A sample as a person would recognise it.

        Args:
            row: One row of a split.

        Returns:
            Its words, or an image as a ``data:`` URI; None, as here, where there is neither.
        """
        return None

    @abstractmethod
    def normalise(self, batch: Tensor) -> Tensor:
        """Model inputs (N, *shape) from rows of a split (N, ...), without augmentation."""
