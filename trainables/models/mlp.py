"""A multilayer perceptron for arrays of numbers."""

from typing import Annotated

from torch import nn

from trainables.data.kinds.arrays import Arrays, Images
from trainables.data.kinds.table import TableRows
from trainables.models.base import Classifier
from trainables.models.vectors import Vectors
from trainables.plugins.arguments import Range


def mlp(
    *,
    samples: Arrays | Images | TableRows,
    num_classes: int,
    width: Annotated[int, Range(1)] = 256,
    depth: Annotated[int, Range(1)] = 2,
    dropout: Annotated[float, Range(0, 1, open_high=True)] = 0.0,
) -> Classifier:
    """Layers of linear map, BatchNorm and ReLU on the flattened input, followed by the head.

    Categories of a table become one-hot vectors.

    Options:
        width: Units of each hidden layer.
        depth: Number of hidden layers.
        dropout: Probability of dropping a unit after each hidden layer.
    """
    vectors = Vectors(samples)
    layers = hidden_layers(vectors.size, width, depth, dropout)
    return Classifier(nn.Sequential(vectors, *layers), nn.Linear(width, num_classes))


def hidden_layers(units: int, width: int, depth: int, dropout: float) -> list[nn.Module]:
    """Layers from ``units`` inputs to ``width`` features; see :func:`mlp`."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [
            nn.Linear(units, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
        ]
        units = width
    return layers
