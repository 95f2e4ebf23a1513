"""Losses whose gradient is a formula too: no graph to record and to walk back.

On small batches the time of a loss is the time of launching its operations, on large ones that of
passing over memory; evaluating value and gradient together, in place, needs the fewest of both.
(``where`` and ``masked_fill`` are avoided on whole matrices: on a CPU they take ten times as long
as arithmetic. Numbers that scale the gradient go into factors of one column, not into a pass of
their own. PyTorch's softmax is slow on rows shorter than the CPU's vectors.)
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from trainables.losses.base import CalibrationLoss

_VECTOR: Final = 16
"""Float32 numbers in a vector register of today's CPUs."""


class ClosedFormLoss(CalibrationLoss):
    """A loss of logits and targets that gives its gradient itself; differentiable once."""

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and its derivative by the logits, without a graph.

        Args:
            logits: (N, K), float32 or float64; not to be changed.
            targets: (N,) int64, not checked to be in [0, K): looking them up in a row of the
                logits has to fail where they are not, as ``gather`` and ``scatter`` do.

        Returns:
            A scalar, and a tensor of the shape of ``logits``.
        """
        raise NotImplementedError

    def class_terms(self, logits: Tensor) -> Tensor:
        """The loss of each sample for each class that its label might be, differentiable.

        What a loss with ``soft_targets`` needs besides: that of class probabilities is the
        expectation of these.

        Args:
            logits: (N, K), float32 or float64.

        Returns:
            (N, K), finite.
        """
        raise NotImplementedError

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        if targets.is_floating_point():
            return (self.class_terms(logits) * targets.to(logits.dtype)).sum(1).mean()
        try:
            return with_gradient(lambda: self.value_and_gradient(logits, targets), logits)
        except RuntimeError:
            super()._check_range(targets)
            raise

    def _check_range(self, targets: Tensor) -> None:
        """Not asked before, only after a failure: on small batches it takes a fifth of the time."""


def with_gradient(evaluate: Callable[[], tuple[Tensor, ...]], *variables: Tensor) -> Tensor:
    """The first of what ``evaluate`` returns, with a backward pass made of the others.

    Args:
        evaluate: Returns a scalar, then its derivative by each variable.
        *variables: What to differentiate by.
    """
    return _ClosedForm.apply(evaluate, *variables)  # type: ignore[no-any-return]


def log_softmax(logits: Tensor) -> Tensor:
    """``logits.log_softmax(1)``, several times as fast for few classes on a CPU."""
    if logits.shape[1] >= _VECTOR or logits.device.type != "cpu":
        return logits.log_softmax(1)
    shifted = logits - logits.amax(1, keepdim=True)
    return shifted.sub_(shifted.exp().sum(1, keepdim=True).log_())


def softmax(logits: Tensor) -> Tensor:
    """``logits.softmax(1)``, several times as fast for few classes on a CPU."""
    if logits.shape[1] >= _VECTOR or logits.device.type != "cpu":
        return logits.softmax(1)
    powers = (logits - logits.amax(1, keepdim=True)).exp_()
    return powers.div_(powers.sum(1, keepdim=True))


def pull_back(probs: Tensor, *terms: tuple[Tensor, Tensor]) -> Tensor:
    """A function's derivative by the logits, from that by logarithms of some probabilities.

    Args:
        probs: (N, K), softmax of the logits; overwritten with the result.
        *terms: Classes (N, 1) int64, and the derivative (N, 1) by their log-probabilities.
    """
    total = terms[0][1]
    for _, by_log in terms[1:]:
        total = total + by_log
    probs.mul_(-total)
    for classes, by_log in terms:
        probs.scatter_add_(1, classes, by_log)
    return probs


class _ClosedForm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, evaluate: Callable[[], tuple[Tensor, ...]], *variables: Tensor) -> Tensor:
        value, *gradients = evaluate()
        ctx.save_for_backward(*gradients)
        return value

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        # What ``once_differentiable`` is for, at a tenth of its time.
        if torch.is_grad_enabled():
            raise NotImplementedError("this loss can be differentiated once only")
        gradients = ctx.saved_tensors
        # Mostly it is the end of the graph. On other devices, looking would wait for them.
        if grad_output.device.type == "cpu" and grad_output.item() == 1:
            return None, *gradients
        return None, *[gradient * grad_output for gradient in gradients]
