"""Two stages: an encoder, which is trained or stays as it is, then heads on its features.

RefCal (Hebbalaguppe et al., section 4) calls them refinement and calibration. The features of all
splits are computed once, without augmentation, so training a head takes seconds. A head on a
trained encoder scales them to unit length, like the supervised contrastive loss; a head on a frozen
network standardises them.
"""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from trainables.contract.config import EncoderSetup, HeadConfig
from trainables.data.core.base import Dataset, Split
from trainables.data.kinds.arrays import Arrays
from trainables.engine.training import Trainer
from trainables.files.storage import Folder, digest_of, new_digest
from trainables.losses import make_loss
from trainables.models import Classifier
from trainables.plugins.arguments import few, first_line

SPLITS: Final = ("train", "validation", "test")
_COMPARED: Final = 5_000
_INDEX: Final = "encoder.json"  # written last: an encoder that has it is complete


class UnitLength(nn.Module):
    """Scales each row of (N, ...) to unit Euclidean length, as (N, D)."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns (N, D)."""
        return nn.functional.normalize(inputs.flatten(1), dim=1)


class Standardised(nn.Module):
    """Subtracts from (N, D) the mean of each feature and divides by its standard deviation.

    Attributes:
        mean: Buffer (D,).
        std: Buffer (D,); 1 for a constant feature.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns (N, D)."""
        return (inputs - self.mean) / self.std


def frozen_features(trainer: Trainer) -> Dataset:
    """The trainer's dataset with encoder features instead of images."""
    splits = _splits(trainer.dataset)
    features = {name: trainer.features(split).numpy() for name, split in splits.items()}
    return with_features(trainer.dataset, features)


def _splits(dataset: Dataset) -> dict[str, Split]:
    """All splits by name; those of ``evaluation`` are called ``set_0``, ``set_1`` and so on."""
    sets = {f"set_{i}": each.split for i, each in enumerate(dataset.evaluation_sets)}
    return {name: getattr(dataset, name) for name in SPLITS} | sets


def with_features(dataset: Dataset, features: dict[str, np.ndarray]) -> Dataset:
    """The dataset with features (N, D), float32, instead of its samples in each split."""
    splits = _splits(dataset)
    found: dict[str, Any] = {
        name: replace(each, inputs=features[name]) for name, each in splits.items()
    }
    sets = tuple(
        replace(each, split=found.pop(f"set_{i}")) for i, each in enumerate(dataset.evaluation_sets)
    )
    samples = Arrays.unscaled(features["train"].shape[1:])
    return replace(dataset, **found, evaluation_sets=sets, samples=samples)


def refinement_losses(frozen: Dataset) -> dict[str, float]:
    """L_ref and L_SC (RefCal, eq. 3 and 4) of the validation features, or of 5,000 of them.

    Empty if samples have several labels.
    """
    if (labels := torch.from_numpy(np.array(frozen.validation.labels))).ndim > 1:
        return {}
    rows = torch.arange(min(len(labels), _COMPARED)) * len(labels) // min(len(labels), _COMPARED)
    features = torch.from_numpy(np.array(frozen.validation.rows(rows.numpy()))).double()
    given = torch.zeros(len(rows), frozen.num_classes), labels[rows]  # neither reads logits
    return {
        key: float(make_loss(name, frozen.num_classes)(*given, features=features))
        for key, name in (("val_l_ref", "refinement"), ("val_l_sc", "supcon"))
    }


def head_for(dataset: Dataset, setup: EncoderSetup) -> Classifier:
    """A head with new random weights for a dataset of features."""
    first: nn.Module = UnitLength()
    if setup.frozen:
        features: Any = dataset.train.inputs
        known = Arrays.measured(features)
        first = Standardised(torch.tensor(known.mean), torch.tensor(known.std))
    return _head(first, dataset.input_shape[0], dataset.num_outputs, setup.head)


def whole(network: Classifier, setup: EncoderSetup, weights: dict[str, Tensor]) -> Classifier:
    """Both stages as one network, with these weights of the head."""
    size = network.head.in_features
    first = Standardised(torch.zeros(size), torch.ones(size)) if setup.frozen else UnitLength()
    head = _head(first, size, network.head.out_features, setup.head)
    head.load_state_dict(weights)
    return Classifier(nn.Sequential(network.encoder, head.encoder), head.head)


def _head(first: nn.Module, size: int, outputs: int, config: HeadConfig) -> Classifier:
    body = [first]
    if config.kind == "mlp":
        body += [nn.Linear(size, config.width), nn.ReLU()]
        size = config.width
    if config.dropout:
        body.append(nn.Dropout(config.dropout))
    # A single module keeps the names of the weights that older trials stored.
    encoder = body[0] if len(body) == 1 else nn.Sequential(*body)
    return Classifier(encoder, nn.Linear(size, outputs))


def load_encoder_weights(network: Classifier, path: str) -> None:
    """Loads weights of the encoder, in the file of a whole network or of an encoder alone.

    Args:
        network: The network to change.
        path: ``.safetensors``, or a state dict of PyTorch, which is read without unpickling code.

    Raises:
        ValueError: The file cannot be read, lacks weights of the encoder, or has other shapes.
    """
    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            weights = load_file(path)
        else:
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of the file system, of torch or of safetensors
        raise ValueError(f"checkpoint = {path} cannot be read: {first_line(error)}") from error
    if not isinstance(weights, dict):
        raise ValueError(f"checkpoint = {path} holds {type(weights).__name__}, not a state dict")
    inner = {k.removeprefix("encoder."): v for k, v in weights.items() if k.startswith("encoder.")}
    given, own = inner or weights, network.encoder.state_dict()
    if other := [k for k, v in own.items() if k in given and np.shape(given[k]) != v.shape]:
        raise ValueError(
            f"checkpoint = {path} is of another network: the shapes of {few(other)} differ"
        )
    found = network.encoder.load_state_dict(given, strict=False)
    if found.missing_keys:
        raise ValueError(
            f"checkpoint = {path} lacks {few(found.missing_keys)} of the network "
            f"(it has {few(list(weights))})"
        )


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


def save_encoder(
    folder: Folder,
    encoder: nn.Module,
    frozen: Dataset,
    precision: type[np.floating[Any]] = np.float32,
) -> None:
    """Writes the weights of an encoder and its features of the dataset, in this precision.

    It writes the files of :func:`encoder_file`, and finally ``encoder.json`` with their digests.
    Several sweeps may train the same encoder concurrently; the first complete one is kept. If two
    finish at the same time, each index names files that are never overwritten.
    """
    if is_trained(folder):
        return
    digests = {}
    for name, data in _files(encoder, frozen, precision):
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
    """The features in the folder of an encoder, (N, D) float32 or float16 for each split.

    Local files are memory-mapped, so the trials of a node share them. Errors: see
    :func:`load_encoder`.
    """
    index, features = _complete_index(folder), {}
    for file in index.keys() - {"encoder.pt"}:
        split, name = file.removeprefix("features_")[:-4], _with_digest(file, index[file])
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


def _files(
    encoder: nn.Module, frozen: Dataset, precision: type[np.floating[Any]]
) -> Iterator[tuple[str, bytes]]:
    buffer = io.BytesIO()
    torch.save(encoder.state_dict(), buffer)
    yield "encoder.pt", buffer.getvalue()
    for split, each in _splits(frozen).items():
        buffer = io.BytesIO()
        np.save(buffer, np.asarray(each.inputs, precision))
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
