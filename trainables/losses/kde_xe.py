"""Cross-entropy with a kernel estimate of the canonical calibration error."""

from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.arguments import check_integer, check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax
from trainables.metrics.kernel_density import most_likely_bandwidth

_WIDTHS: Final = (0.001, 0.5)
"""Those that the authors use; with far smaller ones float32 does not tell the kernels apart."""


class KernelCalibration(ClosedFormLoss):
    """Cross-entropy + λ · canonical calibration error by Dirichlet kernel density.

    E[y | p_i] is estimated from the other samples of the batch, weighted by a Dirichlet kernel
    around each, in logarithms; the error is Σ_k |E[y_k | p_i] − p_ik|^p without a root. Any number
    of classes works, also with classes that are absent from the batch. A single sample has no
    others, and no penalty.

    Args:
        num_classes: Number K of classes.
        lam: Weight λ in [0, 1000]; r-AURC uses 0.3 on CIFAR-10 and 0.5 on CIFAR-100.
        bandwidth: Width of the kernel, in [1e-5, 1]. Or ``likelihood``: after each epoch the one of
            largest leave-one-out likelihood of the validation predictions is taken, kept in
            [0.001, 0.5]; until then it is 0.02.
        p: Exponent of the error, 1 or 2.

    Attributes:
        width: Buffer (), the width of the kernel.
    """

    source: ClassVar[str] = "Popordanoska et al. 2022, eq. 9-10"
    formula: ClassVar[str] = (
        "−log p_y + λ Σ_k |Σ_j≠i w_ij 1[y_j=k] − p_ik|^p, w_ij ∝ Dir(p_i; p_j/h+1)"
    )
    width: Tensor

    def __init__(
        self, num_classes: int, lam: float = 0.3, bandwidth: float | str = 0.02, p: int = 1
    ) -> None:
        super().__init__(num_classes)
        self.lam = check_number("lam", lam, 0, 1000)
        self.adapts = bandwidth == "likelihood"
        width = 0.02 if self.adapts else _check_width(bandwidth)
        self.register_buffer("width", torch.tensor(width, dtype=torch.float64))
        self.p = check_integer("p", p, low=1)
        if self.p > 2:
            raise ValueError(f"p must be 1 or 2, got {p}")

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        probs, share = log_probs.exp(), 1 / len(logits)
        value = log_p.mean().neg_()
        if len(logits) == 1 or self.lam == 0:
            gradient = probs.mul_(share)
        else:
            penalty, by_log_probs = self._calibration_error(log_probs, probs, targets)
            value.add_(penalty, alpha=self.lam * share)
            by_log_probs.mul_(self.lam * share)
            inner = by_log_probs.sum(1, keepdim=True)
            gradient = by_log_probs.addcmul_(probs, share - inner)
        return value, gradient.scatter_add_(1, classes, log_p.fill_(-share))

    @torch.no_grad()
    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Chooses the bandwidth, unless it is given."""
        if self.adapts and len(val_logits) > 1:
            self.width.fill_(most_likely_bandwidth(val_logits.double().softmax(1)))
            self.width.clamp_(*_WIDTHS)

    def _calibration_error(
        self, log_probs: Tensor, probs: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The errors of all samples, summed, and the derivative by the log-probabilities."""
        centres = probs / self.width
        shapes = centres + 1
        # The kernel's normalisation is B(α) without Γ(Σα), which is the same for all centres.
        log_kernel = (log_probs @ centres.T).sub_(torch.lgamma(shapes).sum(1))
        weights = log_kernel.fill_diagonal_(-torch.inf).softmax(1)
        error = probs.neg().index_add_(1, targets, weights)
        if self.p == 1:
            penalty, by_error = error.abs().sum(), error.sign_()
        else:
            penalty, by_error = error.square().sum(), error.mul_(2)
        by_kernel = _softmax_pullback(weights, by_error.index_select(1, targets))
        by_centres = by_kernel.T @ log_probs
        by_centres.addcmul_(by_kernel.sum(0).unsqueeze(1), torch.digamma(shapes), value=-1)
        # By log p in all: directly, and p times the derivative by p.
        by_probs = by_centres.div_(self.width).sub_(by_error)
        return penalty, (by_kernel @ centres).addcmul_(probs, by_probs)


def _check_width(bandwidth: float | str) -> float:
    if isinstance(bandwidth, str):
        raise ValueError(
            f"bandwidth must be likelihood or a number in [1e-05, 1], got {bandwidth!r}"
        )
    return check_number("bandwidth", bandwidth, 1e-5, 1)


def _softmax_pullback(probs: Tensor, by_probs: Tensor) -> Tensor:
    """Derivative by what a softmax was taken of, from that by its result."""
    return by_probs.sub_((probs * by_probs).sum(1, keepdim=True)).mul_(probs)
