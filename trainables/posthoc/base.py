"""The interface of all post-hoc calibration methods."""

from typing import ClassVar, Protocol, Self, runtime_checkable

from torch import Tensor


@runtime_checkable
class PostHoc(Protocol):
    """A map from logits to calibrated logits, fitted on held-out data (never the test split).

    Attributes:
        name: Name in sweep files and tables.
    """

    name: ClassVar[str]

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit the map on logits (N, K) and integer labels (N,); returns the object itself."""
        ...

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits (N, K), same dtype as the input; RuntimeError before `fit`."""
        ...
