"""Losses whose gradient is a formula too: no graph to record and to walk back.

On small batches the time of a loss is the time of launching its operations; evaluating value and
gradient together launches the fewest.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainables.losses.base import CalibrationLoss


class ClosedFormLoss(CalibrationLoss):
    """A loss of logits and targets that gives its gradient itself; differentiable once."""

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and its derivative by the logits, without a graph.

        Args:
            logits: (N, K), float32 or float64; not to be changed.
            targets: (N,) int64.

        Returns:
            A scalar, and a tensor of the shape of ``logits``.
        """
        raise NotImplementedError

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        return with_gradient(logits, targets, self.value_and_gradient)


def with_gradient(
    logits: Tensor,
    targets: Tensor,
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> Tensor:
    """The value of ``evaluate(logits, targets)``, which returns a value and its gradient."""
    return _ClosedForm.apply(logits, targets, evaluate)  # type: ignore[no-any-return, no-untyped-call]


class _ClosedForm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        targets: Tensor,
        evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    ) -> Tensor:
        value, gradient = evaluate(logits, targets)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        (gradient,) = ctx.saved_tensors
        return gradient * grad_output, None, None
