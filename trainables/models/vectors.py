"""The first layer of a network of vectors: one-hot categories, everything else flattened."""

import math

import torch
from torch import Tensor, nn

from trainables.data.core.samples import Samples
from trainables.data.kinds.table import TableRows


class Vectors(nn.Module):
    """Maps inputs (N, ...) to vectors (N, ``size``), float32.

    The index of each category of a table becomes a vector of zeros with a one at its level; a
    missing or unknown level has zeros only. All other inputs are flattened.
    """

    def __init__(self, samples: Samples) -> None:
        super().__init__()
        levels = samples.levels if isinstance(samples, TableRows) else ()
        self.levels = tuple(map(len, levels))
        self.numbers = math.prod(samples.shape) - len(levels)
        self.size = self.numbers + sum(self.levels)

    def forward(self, inputs: Tensor) -> Tensor:
        """See the class."""
        flat = inputs.flatten(1).float()
        codes = flat[:, self.numbers :].unsqueeze(2)
        one_hot = [
            codes[:, place] == torch.arange(1, count + 1, device=flat.device)
            for place, count in enumerate(self.levels)
        ]
        return torch.cat([flat[:, : self.numbers], *one_hot], dim=1)
