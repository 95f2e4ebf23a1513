"""The interface of all post-hoc calibration methods."""

from typing import ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor

State = TypeVar("State")


@runtime_checkable
class PostHoc(Protocol):
    """A map from logits to calibrated logits; ``name`` is its name in sweep files and tables."""

    name: ClassVar[str]

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit on held-out data (never the test split); returns the object itself.

        Args:
            logits: Shape (N, K), floats, finite, or -inf for masked classes.
            labels: True classes, shape (N,), integers.

        Raises:
            TypeError: If the arguments are not tensors of floats and of integers.
            ValueError: If shapes or values are not as above, the logits look like probabilities, or
                the label of a sample is masked.
        """

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits (N, K), same dtype as the input; RuntimeError before `fit`."""


class Fitted(Generic[State]):
    """Base class of methods, with the result of `fit`."""

    _fitted: State | None = None

    def _result(self) -> State:
        if self._fitted is None:
            raise RuntimeError(f"{type(self).__name__} has no parameters yet: call fit first")
        return self._fitted
