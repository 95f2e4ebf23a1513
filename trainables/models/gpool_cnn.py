"""The global-pooling text CNN of the calibration literature."""

import io
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.data.kinds.encode import PADDING
from trainables.data.kinds.tokens import Tokens
from trainables.data.readers.files import PathOrUri, find_files
from trainables.models.base import Classifier
from trainables.plugins.arguments import Range

_KERNEL = 5
_SHORTEST = 5 * (_KERNEL - 1) + 1  # minimum length for three convolutions and two poolings


def gpool_cnn(
    *,
    samples: Tokens,
    num_classes: int,
    vectors: PathOrUri | None = None,
    tune_vectors: bool = False,
    vector_size: Annotated[int, Range(1)] = 100,
    width: Annotated[int, Range(1)] = 128,
    dropout: Annotated[float, Range(0, 1, open_high=True)] = 0.3,
) -> Classifier:
    """Word vectors, three convolutions with kernel size 5, global max-pooling, one hidden layer.

    As in J. Mukhoti et al., Calibrating Deep Neural Networks using Focal Loss, 2020, and their code
    (after M. Lin et al., Network in Network, 2014). Between the convolutions is a max-pool over
    five positions with stride 1.

    Options:
        vectors: Path or URI of a GloVe file, whose lines have a word and its numbers; words that it
            lacks start at zero. By default, vectors are random and trained.
        tune_vectors: Whether to train vectors from a file, too.
        vector_size: Dimension of the word vectors if there is no file.
        width: Channels of the convolutions, and units of the hidden layer.
        dropout: Probability of dropping a unit before the head.
    """
    if vectors is None:
        embedding = nn.Embedding(samples.num_tokens, vector_size, padding_idx=PADDING)
    else:
        weights = _read_vectors(vectors, samples)
        embedding = nn.Embedding(len(weights), weights.shape[1], PADDING)
        embedding.weight = nn.Parameter(weights, requires_grad=tune_vectors)
    return Classifier(_Encoder(embedding, width, dropout), nn.Linear(width, num_classes))


class _Encoder(nn.Module):
    def __init__(self, embedding: nn.Embedding, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, width, _KERNEL)
            for channels in (embedding.embedding_dim, width, width)
        )
        self.layer = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Maps (N, L) integers to (N, width)."""
        missing = max(_SHORTEST - tokens.shape[1], 0)
        tokens = F.pad(tokens, (0, missing), value=PADDING)
        found = self.embedding(tokens).transpose(1, 2)
        for index, convolution in enumerate(self.convolutions):
            if index > 0:
                found = F.max_pool1d(found, _KERNEL, stride=1)
            found = F.relu(convolution(found))
        features: Tensor = self.dropout(F.relu(self.layer(found.amax(dim=2))))
        return features


def _read_vectors(path: PathOrUri, samples: Tokens) -> Tensor:
    """The vectors of a vocabulary, (num_tokens, D) float32; zeros for words not in the file."""
    source, found = find_files("vectors", path, (".txt",))
    weights = np.zeros((0, 0), np.float32)
    with source.open_input_stream(found[0]) as stream:
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            word, *values = line.rstrip().split(" ")
            if word not in samples.numbers:
                continue
            if not weights.size:
                weights = np.zeros((samples.num_tokens, len(values)), np.float32)
            try:
                weights[samples.numbers[word]] = np.array(values, np.float32).reshape(
                    weights.shape[1]
                )
            except ValueError as error:
                raise ValueError(
                    f"vectors={path}: the line of {word!r} is not a word and "
                    f"{weights.shape[1]} numbers"
                ) from error
    if not weights.size:
        raise ValueError(f"vectors={path} has no vector of any word of the training texts")
    return torch.from_numpy(weights)
