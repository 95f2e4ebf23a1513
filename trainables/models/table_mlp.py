"""A multilayer perceptron for tables, with periodic embeddings of numbers."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from rtdl_num_embeddings import PeriodicEmbeddings
from torch import Tensor, nn

from trainables.data.kinds.table import Points, TableRows
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
    numbers: Literal["normal_scores", "z_scores"] = "normal_scores",
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
        numbers: Whether skewed columns become normal scores, or all are only standardised.
    """
    points = samples.scores if numbers == "normal_scores" else ()
    encoder = _Encoder(samples, points, width, depth, dropout, vector_size, frequency_scale)
    return Classifier(encoder, nn.Linear(width, num_classes))


class _Encoder(nn.Module):
    def __init__(
        self,
        samples: TableRows,
        points: Sequence[Points],
        width: int,
        depth: int,
        dropout: float,
        vector_size: int,
        frequency_scale: float,
    ) -> None:
        super().__init__()
        numeric, flags = len(samples.numeric), sum(samples.has_missing)
        self.sizes = [numeric, flags, len(samples.categorical)]
        self.scores: nn.Module = NormalScores(points) if any(points) else nn.Identity()
        self.register_load_state_dict_pre_hook(_as_trained)  # type: ignore[no-untyped-call]
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
            parts.append(self.numbers(self.scores(numbers)).flatten(1))
        codes = categories.long()  # torch.export cannot unbind an empty axis
        parts += [each(codes[:, place]) for place, each in enumerate(self.categories)]
        features: Tensor = self.layers(torch.cat(parts, dim=1))
        return features


class NormalScores(nn.Module):
    """Linear interpolation between the points of skewed columns; others stay.

    Outside of its points, the map of a column is constant.
    """

    is_skewed: Tensor
    starts: Tensor
    widths: Tensor
    rises: Tensor
    lowest: Tensor

    def __init__(self, points: Sequence[Points]) -> None:
        super().__init__()
        known = [each or ((0.0, 0.0),) for each in points]
        most = max(map(len, known))
        # The last point is repeated, so that all columns have equally many.
        padded = [[*each, *each[-1:] * (most - len(each))] for each in known]
        numbers, scores = torch.tensor(padded, dtype=torch.float64).unbind(2)
        widths = numbers.diff()
        self.register_buffer("is_skewed", torch.tensor([bool(each) for each in points]))
        self.register_buffer("starts", numbers[:, :-1].float())
        self.register_buffer("widths", torch.where(widths > 0, widths, 1).float())
        self.register_buffer("rises", scores.diff().float())
        self.register_buffer("lowest", scores[:, 0].float())

    def forward(self, numbers: Tensor) -> Tensor:
        """Maps (N, C) to (N, C)."""
        shares = ((numbers.unsqueeze(2) - self.starts) / self.widths).clamp(0, 1)
        scores = self.lowest + (shares * self.rises).sum(2)
        return torch.where(self.is_skewed, scores, numbers)


def _as_trained(encoder: nn.Module, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """A checkpoint without scores is of a network that reads standardised numbers."""
    if f"{prefix}scores.starts" not in state:
        encoder.scores = nn.Identity()
