"""A multilayer perceptron for tables, with periodic embeddings of numbers."""

from functools import partial
from typing import Annotated

import torch
from rtdl_num_embeddings import PeriodicEmbeddings
from torch import Tensor, nn

from trainables.data.kinds.table import TableRows
from trainables.models.base import Classifier
from trainables.models.mlp import hidden_layers
from trainables.plugins.arguments import Range


def table_mlp(
    *,
    samples: TableRows,
    num_classes: int,
    width: Annotated[int, Range(1)] = 256,
    depth: Annotated[int, Range(1)] = 2,
    dropout: Annotated[float, Range(0, 1, open_high=True)] = 0.1,
    vector_size: Annotated[int, Range(1)] = 24,
    frequency_scale: Annotated[float, Range(0, open_low=True)] = 0.01,
) -> Classifier:
    """An MLP on embedded columns (MLP-PLR), a strong and cheap baseline for tables.

    Each number is embedded by sines and cosines of learnt frequencies, a linear map and ReLU (Y.
    Gorishniy et al., On Embeddings for Numerical Features in Tabular Deep Learning, 2022), and each
    category by a learnt vector. Layers of linear map, BatchNorm, ReLU and dropout follow.

    Options:
        width: Units of each layer.
        depth: Number of layers.
        dropout: Probability of dropping a unit after each layer.
        vector_size: Dimension of the embedding of a numeric column.
        frequency_scale: Standard deviation of the initial frequencies.
    """
    encoder = _Encoder(samples, width, depth, dropout, vector_size, frequency_scale)
    return Classifier(encoder, nn.Linear(width, num_classes))


class _Encoder(nn.Module):
    def __init__(
        self,
        samples: TableRows,
        width: int,
        depth: int,
        dropout: float,
        vector_size: int,
        frequency_scale: float,
    ) -> None:
        super().__init__()
        numeric, flags = len(samples.numeric), sum(samples.has_missing)
        self.sizes = [numeric, flags, len(samples.categorical)]
        embed = partial(PeriodicEmbeddings, frequency_init_scale=frequency_scale, lite=False)
        self.numbers = embed(numeric, vector_size) if numeric else None
        # One more level, 0, for values that are missing or do not occur in training.
        counts = [len(levels) + 1 for levels in samples.levels]
        self.categories = nn.ModuleList(
            nn.Embedding(count, min(32, round(count**0.5) + 1)) for count in counts
        )
        units = numeric * vector_size + flags
        units += sum(each.embedding_dim for each in self.categories)  # type: ignore[misc]
        self.layers = nn.Sequential(*hidden_layers(units, width, depth, dropout))

    def forward(self, rows: Tensor) -> Tensor:
        """Maps (N, numbers + flags + categories), see TableRows, to (N, width)."""
        numbers, flags, categories = torch.split(rows, self.sizes, dim=1)
        parts = [flags]
        if self.numbers is not None:
            parts.append(self.numbers(numbers).flatten(1))
        codes = categories.long()  # torch.export cannot unbind an empty axis
        parts += [each(codes[:, place]) for place, each in enumerate(self.categories)]
        features: Tensor = self.layers(torch.cat(parts, dim=1))
        return features
