"""Training batches of one worker: augmentation, mixing and its share of the global batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from trainables.contract.config import AugmentationName
from trainables.data.core.samples import Samples
from trainables.data.core.tasks import IGNORED
from trainables.data.kinds.augmentation import draw_moves, move
from trainables.engine.feed import Batch, Feed
from trainables.losses import CalibrationLoss
from trainables.runtime.distributed import rank, world_size


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

    def read(self, rows: Sequence[np.ndarray]) -> Iterator[tuple[Batch, int]]:
        """Yields what this worker needs of batches with these rows, and the size of each batch."""
        wanted = list(rows) if self._loss_prepares else [each[share_of(len(each))] for each in rows]
        for numbers, batch in zip(rows, self.feed.batches(wanted), strict=True):
            yield batch, len(numbers)

    def prepare(self, batch: Batch, size: int, generator: torch.Generator) -> Batch:
        """The samples of this worker for the model; ``generator`` is equal on all workers.

        Inputs (M, ...) of the model; targets, labels (M, ...) int64 or uint8, or class
        probabilities (M, K); and rows (M,) int64, positions in the training split.
        """
        if self._loss_prepares:
            return self._mixed(batch, size, generator)
        stored, labels, rows = batch
        draw = self.augmentation, generator, share_of(size).start, size
        if not self.samples.each_pixel:
            return self.samples.prepare(stored, *draw), labels, rows
        moves = draw_moves(stored, *draw)  # the same of images and masks
        masks = move(labels.unsqueeze(1), moves, fill=IGNORED).squeeze(1)
        return self.samples.normalise(move(stored, moves)), masks, rows

    @property
    def _loss_prepares(self) -> bool:
        return type(self.loss).prepare_batch is not CalibrationLoss.prepare_batch

    def _mixed(self, batch: Batch, size: int, generator: torch.Generator) -> Batch:
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
        return inputs, targets, rows


def share_of(count: int) -> slice:
    """This worker's part of a batch; sizes differ by at most one sample, larger parts first."""
    each, more = divmod(count, world_size())
    start = rank() * each + min(rank(), more)
    return slice(start, start + each + (rank() < more))
