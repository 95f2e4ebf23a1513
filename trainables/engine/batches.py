"""Training batches of one worker: augmentation, mixing and its share of the global batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.contract.config import AugmentationName
from trainables.data.core.samples import Samples
from trainables.data.core.tasks import IGNORED
from trainables.data.kinds.augmentation import draw_moves, move
from trainables.engine.feed import Batch, Feed
from trainables.losses import CalibrationLoss
from trainables.runtime.distributed import rank, world_size


@dataclass(frozen=True)
class TrainingBatch:
    """The samples of one worker in one step.

    ``inputs`` (M, ...) of the model; ``targets``, labels (M, ...) int64 or uint8, or class
    probabilities (M, K); ``rows`` (M,) int64, positions in the training split; and ``size``, the
    number of samples over all workers.
    """

    inputs: Tensor
    targets: Tensor
    rows: Tensor
    size: int


@dataclass(frozen=True)
class TrainingBatches:
    """Prepares batches; the result does not depend on the number of workers.

    A worker reads only its share of each batch, but draws random numbers for the whole batch. A
    loss with its own ``prepare_batch`` may combine samples, so it gets the whole batch on every
    worker.
    """

    feed: Feed
    samples: Samples
    loss: CalibrationLoss
    augmentation: AugmentationName

    def __call__(
        self, rows: Sequence[np.ndarray], generator: torch.Generator
    ) -> Iterator[TrainingBatch]:
        """Yields batches of these rows of all workers; ``generator`` is equal on all workers."""
        if type(self.loss).prepare_batch is CalibrationLoss.prepare_batch:
            read, prepare = [numbers[share_of(len(numbers))] for numbers in rows], self._share
        else:
            read, prepare = list(rows), self._by_loss
        for numbers, batch in zip(rows, self.feed.batches(read), strict=True):
            yield prepare(batch, len(numbers), generator)

    def _share(self, batch: Batch, size: int, generator: torch.Generator) -> TrainingBatch:
        stored, labels, rows = batch
        draw = self.augmentation, generator, share_of(size).start, size
        if not self.samples.each_pixel:
            return TrainingBatch(self.samples.prepare(stored, *draw), labels, rows, size)
        moves = draw_moves(stored, *draw)  # the same of images and masks
        masks = move(labels.unsqueeze(1), moves, fill=IGNORED).squeeze(1)
        return TrainingBatch(self.samples.normalise(move(stored, moves)), masks, rows, size)

    def _by_loss(self, batch: Batch, size: int, generator: torch.Generator) -> TrainingBatch:
        stored, labels, rows = batch
        inputs, targets = self.loss.prepare_batch(
            stored,
            labels,
            augment=lambda each: self.samples.prepare(each, self.augmentation, generator),
            generator=generator,
        )
        rows = rows.repeat(len(inputs) // size)  # once per view
        if world_size() > 1:
            places = torch.arange(len(inputs), device=inputs.device).view(-1, size)
            mine = places[:, share_of(size)].flatten()
            inputs, targets, rows = inputs[mine], targets[mine], rows[mine]
        return TrainingBatch(inputs, targets, rows, size)


def share_of(count: int) -> slice:
    """This worker's part of a batch; sizes differ by at most one sample, larger parts first."""
    each, more = divmod(count, world_size())
    start = rank() * each + min(rank(), more)
    return slice(start, start + each + (rank() < more))
