"""What every method of calibration after training can do."""

from typing import ClassVar, Protocol, Self, runtime_checkable

from torch import Tensor


@runtime_checkable
class PostHoc(Protocol):
    """A map of logits to calibrated logits, fitted on held-out data (never the test split).

    Attributes:
        name: What sweep files and tables call it.
    """

    name: ClassVar[str]

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Learn the map from logits (N, K) and labels (N,); returns the object itself."""
        ...

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits (N, K) of the calibrated probabilities; RuntimeError before `fit`."""
        ...
