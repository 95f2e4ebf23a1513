"""Atomically written checkpoints, with the digest of the content in the file name."""

import io
import re
from collections.abc import Iterator
from typing import Any

import torch

from trainables.files.storage import Folder, digest_of

_NAME = re.compile(r"epoch_(\d{6})-([0-9a-f]{16})\.pt")


def save_checkpoint(folder: Folder, epoch: int, state: dict[str, object]) -> str:
    """Writes the state after an epoch; deletes all other checkpoints except the previous epoch's.

    The previous one is kept in case the new one is damaged. Checkpoints of later epochs must be
    damaged, because otherwise the trial would have resumed from them. The state has tensors and
    plain Python values only (it is read with ``weights_only=True``); ``setting`` identifies the
    trial. The file is ``epoch_000012-<digest>.pt``; plain ``torch.load`` reads it.

    Raises:
        OSError: The folder cannot be written; existing checkpoints are kept.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    name = f"epoch_{epoch:06d}-{digest_of(data)}.pt"
    folder.write(name, data)
    others = [other for other in _checkpoint_names(folder) if other != name]
    earlier = [other for other in others if other < f"epoch_{epoch:06d}"]
    for other in others:
        if other not in earlier[-1:]:
            folder.delete(other)
    return name


def load_checkpoint(folder: Folder, setting: str) -> dict[str, Any] | None:
    """The newest undamaged state whose ``state["setting"]`` is this; None if there is none."""
    states = (
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        for data in _undamaged(folder)
    )
    return next((state for state in states if state.get("setting") == setting), None)


def read_checkpoint(folder: Folder) -> bytes | None:
    """The content of the newest checkpoint that matches its digest; None if there is none."""
    return next(_undamaged(folder), None)


def _undamaged(folder: Folder) -> Iterator[bytes]:
    for name in reversed(_checkpoint_names(folder)):
        try:
            data = folder.read(name)
        except FileNotFoundError:  # deleted by a process that was considered dead
            continue
        if (match := _NAME.fullmatch(name)) and match[2] == digest_of(data):
            yield data


def _checkpoint_names(folder: Folder) -> list[str]:
    return [name for name in folder.names() if _NAME.fullmatch(name)]
