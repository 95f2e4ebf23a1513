"""One-vs-rest calibration of class probabilities: isotonic regression and histogram binning."""

from collections.abc import Callable
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.metrics._inputs import check_count, check_logits
from trainables.metrics._ranked import upper_edges
from trainables.plugins.arguments import check_choice
from trainables.posthoc.base import Fitted

Array = NDArray[np.float64]
Binning = Literal["equal_mass", "equal_width"]

_LOWEST = 1e-12  # a probability of 0 would make the loss of one error infinite


class _OneVsRest(Fitted[list[Callable[[Array], Array]]]):
    """One map per class from probability to observed frequency, followed by normalisation."""

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit the map of each class; see :meth:`PostHoc.fit`. A label may be masked."""
        logits, labels = check_logits(logits, labels)
        probs = torch.softmax(logits.double(), dim=1).cpu().numpy()
        targets = labels.cpu().numpy()
        self._fitted = [
            self._fit_class(probs[:, k], (targets == k).astype(np.float64))
            for k in range(probs.shape[1])
        ]
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        """Logarithms of calibrated probabilities, same shape and dtype.

        If all classes of a sample get 0, the result is uniform. No probability is below 1e-12.
        """
        maps = self._result()
        probs = torch.softmax(logits.detach().double(), dim=1).cpu().numpy()
        shares = np.stack([share(column) for share, column in zip(maps, probs.T, strict=True)], 1)
        shares = np.maximum(shares, _LOWEST)
        shares /= shares.sum(axis=1, keepdims=True)
        return torch.from_numpy(np.log(shares)).to(logits)

    def _fit_class(self, scores: Array, members: Array) -> Callable[[Array], Array]:
        raise NotImplementedError


class IsotonicCalibration(_OneVsRest):
    """One-vs-rest isotonic regression per class, followed by normalisation.

    Zadrozny & Elkan 2002. The function is linear between two samples, as in scikit-learn.
    """

    name: ClassVar[str] = "isotonic"

    def _fit_class(self, scores: Array, members: Array) -> Callable[[Array], Array]:
        from sklearn.isotonic import IsotonicRegression  # slow to import

        model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, members)
        return lambda values: np.asarray(model.predict(values), dtype=np.float64)


class HistogramBinning(_OneVsRest):
    """Histogram binning per class: the class frequency in each bin, followed by normalisation.

    Zadrozny & Elkan 2001; Guo et al. 2017. Bins are (lower, upper]. An empty bin is mapped to its
    middle.

    Args:
        num_bins: Number of bins per class.
        binning: "equal_mass" (edges halfway between samples) or "equal_width" over [0, 1].

    Raises:
        ValueError: If `num_bins` is not a positive integer, or `binning` is neither of the two.
    """

    name: ClassVar[str] = "histogram"

    def __init__(self, num_bins: int = 15, binning: Binning = "equal_mass") -> None:
        check_count("num_bins", num_bins)
        check_choice("binning", binning, get_args(Binning))
        self.num_bins, self.binning = num_bins, binning

    def _fit_class(self, scores: Array, members: Array) -> Callable[[Array], Array]:
        if self.binning == "equal_mass":
            ordered = np.sort(scores)
            cuts = np.arange(1, self.num_bins) * len(scores) // self.num_bins
            inner = (ordered[np.maximum(cuts - 1, 0)] + ordered[cuts]) / 2
            edges = np.concatenate([[0.0], inner, [1.0]])
        else:
            edges = np.concatenate([[0.0], upper_edges(torch.empty(0).double(), self.num_bins)])
        inner = edges[1:-1]
        cell = np.searchsorted(inner, scores)
        count = np.bincount(cell, minlength=self.num_bins)
        total = np.bincount(cell, members, self.num_bins)
        middle = (edges[:-1] + edges[1:]) / 2
        shares = np.where(count > 0, total / np.maximum(count, 1), middle)
        return lambda values: shares[np.searchsorted(inner, values)]
