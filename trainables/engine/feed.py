"""Batches of a split, prepared ahead on the training device."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller

import numpy as np
import torch
from torch import Tensor

from trainables.data.core.base import Split
from trainables.data.readers.ahead import in_order

_RESIDENT = 2**30  # bytes; a larger split is prefetched instead of copied to the GPU
_AHEAD = 3  # batches that are prefetched
_PIECE = 32  # images that a process decodes per task
_PIECES_AHEAD = 4  # tasks in flight per process
_SECONDS_IDLE = 60  # idle time after which a decoding process exits

Batch = tuple[Tensor, Tensor, Tensor]
"""Inputs as stored, targets (labels (n,) int64, or class probabilities), row numbers (n,) int64."""


class Feed:
    """Yields rows of a split in batches.

    A split of up to ``resident`` bytes (1 GiB) is copied to a GPU once, as stored, and so are the
    row numbers of an epoch: no step waits for a transfer. For a larger split, a thread gathers rows
    ahead into pinned memory. Encoded images are decoded ahead, by as many processes as the trial
    has threads. A trial with one thread and no GPU decodes them itself.
    """

    def __init__(self, split: Split, device: torch.device, resident: int = _RESIDENT) -> None:
        self._split = split
        self._device = device
        self._there: tuple[Tensor, Tensor] | None = None
        if device.type != "cpu" and not split.is_streamed and split.inputs.nbytes <= resident:
            self._there = self._send(split.rows(slice(None))), self._send(split.targets)

    def batches(self, rows: Sequence[np.ndarray]) -> Iterator[Batch]:
        """Yields the batches with these row numbers, in order."""
        if self._split.is_streamed and (self._device.type != "cpu" or torch.get_num_threads() > 1):
            yield from self._decode_ahead(rows)
        elif self._device.type == "cpu":
            for numbers in rows:
                yield self._gather(numbers)
        elif self._there is not None:
            inputs, targets = self._there
            order = self._send(np.concatenate(rows))
            for part in torch.split(order, [len(numbers) for numbers in rows]):
                yield inputs[part], targets[part], part
        else:
            yield from self._read_ahead(rows)

    def _read_ahead(self, rows: Sequence[np.ndarray]) -> Iterator[Batch]:
        def gather(numbers: np.ndarray) -> Batch:
            return self._pinned(self._gather(numbers))

        with ThreadPoolExecutor(1) as thread:
            yield from map(self._sent, in_order(thread.submit, gather, rows, _AHEAD))

    def _decode_ahead(self, rows: Sequence[np.ndarray]) -> Iterator[Batch]:
        from loky import get_reusable_executor

        images = self._split.inputs
        processes = torch.get_num_threads()
        pool = get_reusable_executor(processes, timeout=_SECONDS_IDLE)
        counts = [math.ceil(len(numbers) / _PIECE) for numbers in rows]
        pieces = (
            images[piece]
            for numbers, count in zip(rows, counts, strict=True)
            for piece in np.array_split(numbers, count)
        )
        decoded = in_order(pool.submit, methodcaller("read"), pieces, _PIECES_AHEAD * processes)
        for numbers, count in zip(rows, counts, strict=True):
            inputs = np.concatenate([next(decoded) for _ in range(count)])
            yield self._sent(self._pinned(self._batch(inputs, numbers)))

    def _gather(self, numbers: np.ndarray) -> Batch:
        return self._batch(self._split.rows(numbers), numbers)

    def _batch(self, inputs: np.ndarray, numbers: np.ndarray) -> Batch:
        targets = self._split.targets[numbers]
        return torch.from_numpy(inputs), torch.from_numpy(targets), torch.from_numpy(numbers)

    def _pinned(self, batch: Batch) -> Batch:
        if self._device.type != "cuda":
            return batch
        inputs, targets, rows = (each.pin_memory() for each in batch)
        return inputs, targets, rows

    def _sent(self, batch: Batch) -> Batch:
        inputs, targets, rows = (each.to(self._device, non_blocking=True) for each in batch)
        return inputs, targets, rows

    def _send(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self._device)
