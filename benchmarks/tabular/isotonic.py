"""One-vs-rest isotonic regression, as a rival of calsweep's post-hoc methods."""

from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

_LOWEST = 1e-12  # a probability of 0 would make the loss of one error infinite


class IsotonicCalibration:
    """Isotonic regression per class, followed by normalisation: Zadrozny & Elkan 2002."""

    name: ClassVar[str] = "isotonic"

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit the map of each class."""
        self._maps = [
            IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(column, labels == k)
            for k, column in enumerate(_probs(logits).T)
        ]
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        """Logarithms of calibrated probabilities, same shape and dtype."""
        columns = zip(self._maps, _probs(logits).T, strict=True)
        shares = np.stack([each.predict(column) for each, column in columns], axis=1)
        shares = np.maximum(shares, _LOWEST)
        return torch.from_numpy(np.log(shares / shares.sum(axis=1, keepdims=True))).to(logits)


def _probs(logits: Tensor) -> NDArray[np.float64]:
    return torch.softmax(logits.double(), dim=1).numpy()
