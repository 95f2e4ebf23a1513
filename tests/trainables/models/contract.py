"""One model of each kind, with a dataset of its samples, for the contract that all must keep."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.trainables.models.test_models import TABLE, TEXTS, WEIGHTED, images, rows
from trainables.data.core.base import Dataset, Split
from trainables.data.core.samples import Samples
from trainables.data.kinds.subwords import Subwords
from trainables.files.storage import Folder
from trainables.models import Classifier, model_for
from trainables.plugins.saved_objects import keep

COUNT = 12
TOKENS = 16
IMAGES = images(3, 32, 32)


class Own(nn.Module):
    """The start of a user's module."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3 * 32 * 32, 6)
        self.last = nn.Linear(6, 2)


class CountsRows(Own):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x.reshape(len(x), -1)).relu())


class ReadsTheShape(Own):
    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x.reshape(int(x.shape[0]), -1)).relu())


class HasUnusedWeights(Own):
    def __init__(self) -> None:
        super().__init__()
        self.aside = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x.flatten(1)).relu())


def normalised() -> nn.Module:
    """A batch norm without a bias, as newer versions of torch can make."""
    norm = nn.BatchNorm2d(4)
    norm.register_parameter("bias", None)
    convolution = nn.Conv2d(3, 4, 3, stride=4)
    return nn.Sequential(convolution, norm, nn.Flatten(), nn.Linear(4 * 8 * 8, 2))


SMALL = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {**SMALL, "intermediate_size": 16},
    "squeezebert": {**SMALL, "intermediate_size": 16, "embedding_size": 16},
    "layoutlm": {**SMALL, "intermediate_size": 16},
    "longformer": {**SMALL, "intermediate_size": 16, "attention_window": 4},
    "xlnet": {"vocab_size": 40, "d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16},
    "esm": {**SMALL, "intermediate_size": 16, "pad_token_id": 1, "mask_token_id": 2},
}
OWN: dict[str, Callable[[], nn.Module]] = {
    "len(x)": CountsRows,
    "int(x.shape[0])": ReadsTheShape,
    "unused weights": HasUnusedWeights,
    "batch norm without bias": normalised,
}
BUILT_IN: dict[str, Samples] = {
    "small_cnn": IMAGES,
    "airbench_cifar": IMAGES,
    "timm/test_resnet": IMAGES,
    "timm/test_vit": images(3, 160, 160),
    "mlp": IMAGES,
    "table_mlp": TABLE,
    "text_mlp": WEIGHTED,
    "gpool_cnn": TEXTS,
}
NAMES = (*BUILT_IN, *OWN, *(f"huggingface/{name}" for name in ENCODERS))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """As long as this process."""
    return tempfile.TemporaryDirectory(prefix="calsweep-models-")


def scratch() -> Path:
    return Path(_folder().name)


def subject(name: str) -> tuple[Dataset, Classifier]:
    """A dataset of two classes, and the model."""
    torch.manual_seed(0)
    samples, given, options = IMAGES, name, {}
    if name in OWN:
        given = keep(Folder(str(scratch())), OWN[name], "build")
    elif name in BUILT_IN:
        samples = BUILT_IN[name]
    else:
        kind = name.partition("/")[2]
        given, options = f"huggingface/{_saved(kind)}", {"pretrained": False}
        samples = Subwords((TOKENS,), str(scratch() / kind), 40, 1)
    inputs = rows(samples, COUNT) if not isinstance(samples, Subwords) else _tokens()
    stored = inputs.numpy()
    if samples is TABLE:
        stored = np.delete(stored, 2, axis=1)  # stored rows have no indicator of missing values
    if samples is IMAGES or samples == BUILT_IN["timm/test_vit"]:
        stored = (inputs * 50 + 120).clamp(0, 255).to(torch.uint8).numpy()
    split = Split(np.ascontiguousarray(stored), np.arange(COUNT) % 2)
    dataset = Dataset(name, split, split, split, ("a", "b"), samples)
    return dataset, model_for(dataset, given, options)


def _tokens() -> Tensor:
    return (torch.arange(COUNT * TOKENS, dtype=torch.int32) * 7 % 30 + 5).reshape(COUNT, TOKENS)


def _saved(kind: str) -> Path:
    from transformers import AutoConfig

    folder = scratch() / kind
    AutoConfig.for_model(kind, **ENCODERS[kind]).save_pretrained(folder)
    return folder
