"""Checkpoints, written whole or not at all: the file's name has the digest of its content."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import torch

from trainables.files.digests import digest_of
from trainables.files.storage import Folder

_NAME = re.compile(r"epoch_(\d{6})-([0-9a-f]{16})\.pt")


def save_checkpoint(folder: Folder, epoch: int, state: dict[str, Any]) -> str:
    """Write the state after an epoch; delete all others but that of the epoch before.

    That one stays should the new one turn out to be damaged. Those of later epochs are damaged, as
    else the trial would have gone on from them.

    Args:
        folder: The trial's checkpoint folder.
        epoch: Number of epochs completed.
        state: Tensors and plain Python values only (it is read with ``weights_only=True``);
            ``setting`` says of which trial.

    Returns:
        The file's name, ``epoch_000012-<digest>.pt``; plain ``torch.load`` reads it.

    Raises:
        OSError: The folder cannot be written; the checkpoints that were there stay.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    name = f"epoch_{epoch:06d}-{digest_of(data)}.pt"
    folder.write(name, data)
    others = [other for other in _checkpoint_names(folder) if other != name]
    earlier = [other for other in others if _epoch(other) < epoch]
    for other in others:
        if other not in earlier[-1:]:
            folder.delete(other)
    return name


def load_checkpoint(folder: Folder, setting: str) -> dict[str, Any] | None:
    """The state in the newest undamaged checkpoint of a setting, or None where there is none.

    Args:
        folder: The trial's checkpoint folder.
        setting: What ``state["setting"]`` must be. A checkpoint of another trial, which came
            there by whatever accident, is passed over.
    """
    for data in _undamaged(folder):
        state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        if state.get("setting") == setting:
            return state
    return None


def read_checkpoint(folder: Folder) -> bytes | None:
    """The content of the newest checkpoint that is undamaged, or None where there is none.

    A file whose content does not match the digest in its name (cut short, a flipped byte) is
    passed over in favour of the one before it.
    """
    return next(_undamaged(folder), None)


def _undamaged(folder: Folder) -> Iterator[bytes]:
    for name in reversed(_checkpoint_names(folder)):
        try:
            data = folder.read(name)
        except FileNotFoundError:  # deleted since by a process that was taken for dead
            continue
        match = _NAME.fullmatch(name)
        if match and match[2] == digest_of(data):
            yield data


def _epoch(name: str) -> int:
    return int(name[len("epoch_") :].partition("-")[0])


def _checkpoint_names(folder: Folder) -> list[str]:
    return [name for name in folder.names() if _NAME.fullmatch(name)]
