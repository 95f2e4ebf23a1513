"""Batches of a split, on the device where they are needed, without waiting for them there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from trainables.data.base import Split

_RESIDENT = 2**30  # bytes of a split that lie on a GPU as they are; larger ones are read ahead
_AHEAD = 3

Batch = tuple[Tensor, Tensor, Tensor]
"""Inputs as stored, targets (labels (n,) int64, or class probabilities), row numbers (n,) int64."""


class Feed:
    """Gives rows of a split, batch by batch.

    On a GPU a split of up to a gibibyte is copied there once, as it is stored (uint8 for images),
    and an epoch's row numbers in one piece: no step waits for a transfer. Rows of a larger one are
    gathered ahead by a thread, into memory that the GPU copies from by itself.

    Args:
        split: The split; its arrays may be read-only.
        device: Where the batches are wanted.
        resident: Bytes up to which a split is copied there.
    """

    def __init__(self, split: Split, device: torch.device, resident: int = _RESIDENT) -> None:
        self._inputs, self._targets = split.inputs, split.targets
        self._device = device
        self._there: tuple[Tensor, Tensor] | None = None
        if device.type != "cpu" and split.inputs.nbytes <= resident:
            self._there = self._send(split.inputs), self._send(split.targets)

    def batches(self, rows: Sequence[np.ndarray]) -> Iterator[Batch]:
        """The batches of these rows, in order.

        Args:
            rows: Row numbers of each batch.
        """
        if self._device.type == "cpu":
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
        with ThreadPoolExecutor(1) as thread:
            waiting = deque(thread.submit(self._pinned, numbers) for numbers in rows[:_AHEAD])
            for following in (*rows[_AHEAD:], *[None] * len(waiting)):
                inputs, targets, numbers = waiting.popleft().result()
                if following is not None:
                    waiting.append(thread.submit(self._pinned, following))
                yield (
                    inputs.to(self._device, non_blocking=True),
                    targets.to(self._device, non_blocking=True),
                    numbers.to(self._device, non_blocking=True),
                )

    def _pinned(self, numbers: np.ndarray) -> Batch:
        inputs, targets, rows = self._gather(numbers)
        if self._device.type != "cuda":
            return inputs, targets, rows
        return inputs.pin_memory(), targets.pin_memory(), rows.pin_memory()

    def _gather(self, numbers: np.ndarray) -> Batch:
        return (
            torch.from_numpy(self._inputs[numbers]),
            torch.from_numpy(self._targets[numbers]),
            torch.from_numpy(numbers),
        )

    def _send(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self._device)
