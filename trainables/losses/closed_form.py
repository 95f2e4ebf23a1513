"""Losses whose gradient is a formula too: no graph to record and to walk back.

On small batches the time of a loss is the time of launching its operations; evaluating value and
gradient together launches the fewest.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import CalibrationLoss

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


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
        return with_gradient(self.value_and_gradient, logits, targets)


def with_gradient(evaluate: Evaluate, logits: Tensor, targets: Tensor) -> Tensor:
    """The value of ``evaluate(logits, targets)``, which returns a value and its gradient."""
    return _ClosedForm.apply(evaluate, logits, targets)  # type: ignore[no-any-return]


def cross_entropy_and_gradient(log_probs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy, its derivative by the logits, and the probabilities.

    Args:
        log_probs: (N, K), log-softmax of the logits.
        targets: (N,) int64.
    """
    probs = log_probs.exp()
    count = len(log_probs)
    gradient = probs / count
    gradient.scatter_(1, targets.unsqueeze(1), -1 / count, reduce="add")
    return F.nll_loss(log_probs, targets), gradient, probs


def softmax_pullback(probs: Tensor, by_probs: Tensor) -> Tensor:
    """A function's derivative by the logits, (N, K), from that by the probabilities."""
    return probs * (by_probs - (probs * by_probs).sum(1, keepdim=True))


class _ClosedForm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, evaluate: Evaluate, logits: Tensor, targets: Tensor) -> Tensor:
        value, gradient = evaluate(logits, targets)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return None, gradient * grad_output, None
