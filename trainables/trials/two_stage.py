"""The two stages of RefCal: train and freeze an encoder, then train a linear head on its features.

The paper (Hebbalaguppe et al., section 4) calls them refinement and calibration. The features of
all splits are computed once, without augmentation, so training a head takes seconds. The head
normalises them to unit length, like the supervised contrastive loss.
"""

import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from trainables.data.core.base import Dataset
from trainables.data.kinds.samples import Arrays
from trainables.engine.training import Trainer
from trainables.files.storage import Folder, digest_of, new_digest
from trainables.models import Classifier

SPLITS: Final = ("train", "validation", "test")
_INDEX: Final = "encoder.json"  # written last: an encoder that has it is complete


class UnitLength(nn.Module):
    """Scales each row of (N, ...) to unit Euclidean length, as (N, D)."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns (N, D)."""
        return nn.functional.normalize(inputs.flatten(1), dim=1)


def frozen_features(trainer: Trainer) -> Dataset:
    """The trainer's dataset with encoder features instead of images."""
    dataset = trainer.dataset
    features = {name: trainer.features(getattr(dataset, name)).numpy() for name in SPLITS}
    return with_features(dataset, features)


def with_features(dataset: Dataset, features: dict[str, np.ndarray]) -> Dataset:
    """The dataset with features (N, D), float32, instead of images in each split."""
    splits = {name: replace(getattr(dataset, name), inputs=x) for name, x in features.items()}
    return replace(dataset, **splits, samples=Arrays.unscaled(features["train"].shape[1:]))


def linear_head(dataset: Dataset) -> Classifier:
    """A linear classifier on features scaled to unit length, with new random weights."""
    return Classifier(UnitLength(), nn.Linear(dataset.input_shape[0], dataset.num_outputs))


def whole(network: Classifier) -> Classifier:
    """Both stages as one network; the head has its initial weights."""
    return Classifier(nn.Sequential(network.encoder, UnitLength()), network.head)


def encoder_folder(uri: str, seed: int) -> Folder:
    """The folder of the encoder with this seed, in the folder of the sweep's encoders."""
    return Folder(uri) / f"seed_{seed}"


def is_trained(folder: Folder) -> bool:
    """Whether the folder has a complete encoder."""
    return bool(_read_index(folder))


def encoder_file(folder: Folder, name: str) -> str:
    """The name of an encoder's file, with its digest; ``FileNotFoundError`` if it is incomplete.

    ``name`` is ``encoder.pt`` (a state dict) or ``features_<split>.npy`` (N, D) float32.
    """
    return _with_digest(name, _complete_index(folder)[name])


def save_encoder(folder: Folder, encoder: nn.Module, frozen: Dataset) -> None:
    """Writes the weights of a trained encoder and its features of the dataset.

    It writes the files of :func:`encoder_file`, and finally ``encoder.json`` with their digests.
    Several sweeps may train the same encoder concurrently; the first complete one is kept. If two
    finish at the same time, each index names files that are never overwritten.
    """
    if is_trained(folder):
        return
    digests = {}
    for name, data in _files(encoder, frozen):
        digests[name] = digest_of(data)
        folder.write(_with_digest(name, digests[name]), data)
    if not is_trained(folder):
        folder.write(_INDEX, json.dumps(digests, indent=1).encode())


def load_encoder(folder: Folder) -> dict[str, Tensor]:
    """The weights in the folder of a trained encoder, on the CPU.

    Raises ``FileNotFoundError`` if it is incomplete, ``ValueError`` if it is damaged.
    """
    name = encoder_file(folder, "encoder.pt")
    data = folder.read(name)
    _check_digest(folder, name, digest_of(data))
    weights: dict[str, Tensor] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return weights


def load_features(folder: Folder) -> dict[str, np.ndarray]:
    """The features in the folder of a trained encoder, (N, D) float32 for each split.

    Local files are memory-mapped, so the trials of a node share them. Errors: see
    :func:`load_encoder`.
    """
    index, features = _complete_index(folder), {}
    for split in SPLITS:
        name = _with_digest(f"features_{split}.npy", index[f"features_{split}.npy"])
        if folder.is_local:
            path = Path(folder.path) / name
            with open(path, "rb") as stream:
                _check_digest(folder, name, hashlib.file_digest(stream, new_digest).hexdigest())
            features[split] = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            data = folder.read(name)
            _check_digest(folder, name, digest_of(data))
            features[split] = np.load(io.BytesIO(data), allow_pickle=False)
    return features


def _check_digest(folder: Folder, name: str, digest: str) -> None:
    if f"-{digest}." not in name:
        raise ValueError(
            f"{folder.uri}/{name} is damaged; delete that folder and the encoder is trained again"
        )


def _complete_index(folder: Folder) -> dict[str, str]:
    if not (index := _read_index(folder)):
        raise FileNotFoundError(f"no complete encoder lies in {folder.uri}")
    return index


def _files(encoder: nn.Module, frozen: Dataset) -> Any:
    buffer = io.BytesIO()
    torch.save(encoder.state_dict(), buffer)
    yield "encoder.pt", buffer.getvalue()
    for split in SPLITS:
        buffer = io.BytesIO()
        np.save(buffer, getattr(frozen, split).inputs)
        yield f"features_{split}.npy", buffer.getvalue()


def _read_index(folder: Folder) -> dict[str, str]:
    """The digest of each file; empty if there is no encoder or the index is damaged."""
    try:
        index = json.loads(folder.read(_INDEX))
    except (FileNotFoundError, ValueError):
        return {}
    return index if isinstance(index, dict) else {}


def _with_digest(name: str, digest: str) -> str:
    stem, _, ending = name.rpartition(".")
    return f"{stem}-{digest}.{ending}"
