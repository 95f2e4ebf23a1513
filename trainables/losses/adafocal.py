"""Focal losses whose exponents adapt to the calibration on the validation split."""

from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.losses.dual_focal import next_below
from trainables.losses.focal import one_minus_p
from trainables.plugins.arguments import Range

_NUM_BINS: Final = 15
_GAMMA_RANGE: Final = (-2.0, 20.0)
_SMALLEST_GAMMA: Final = 0.2


class AdaFocal(PerSampleLoss):
    """AdaFocal: focal loss with one exponent per confidence bin, updated on the validation split.

    After each epoch, the bins are set to the equal-mass bins of the validation confidences, and
    γ_b ← γ_b·exp(λ(C_b − A_b)), with C_b the mean confidence and A_b the accuracy in bin b (−λ if
    γ_b is negative). A result with |γ_b| < 0.2 is replaced by 0.2 with the opposite sign, and γ_b
    is clipped to [−2, 20]. A negative γ_b selects inverse focal loss with exponent |γ_b|. Before
    the first validation, γ_b is 1 and the bins have equal width.

    As in the authors' code, the true-class probability of a training sample determines its bin,
    and the least confident validation sample, on the lowest edge, is in no bin.

    Args:
        lam: Adaptation rate λ; with 0, γ stays 1.

    Attributes:
        gamma: Buffer (15,), exponent of each bin.
        edges: Buffer (14,), inner edges of the bins; a bin contains its lower edge.
    """

    source: ClassVar[str] = "Ghosh et al. 2022, algorithm 1"
    formula: ClassVar[str] = "−(1−p_y)^γ_b log p_y, γ_b ← γ_b exp(λ(C_b − A_b)) on validation"
    bounds: ClassVar = {"lam": Range(0, 100)}
    gamma: Tensor
    edges: Tensor

    def __init__(self, num_classes: int, lam: float = 1.0) -> None:
        super().__init__(num_classes)
        self.lam = self.check("lam", lam)
        self.register_buffer("gamma", torch.ones(_NUM_BINS))
        self.register_buffer("edges", torch.linspace(0, 1, _NUM_BINS + 1)[1:-1].clone())

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_p = of_classes(logits.log_softmax(1), classes)
        gamma = self._exponents(log_p)
        # 1 − p for γ > 0, 1 + p for γ < 0
        base = 1 - gamma.sign() + gamma.sign() * one_minus_p(log_p)
        return -(base ** gamma.abs()) * log_p

    @torch.no_grad()
    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Updates the bins and their exponents."""
        confidence, predicted = val_logits.softmax(1).max(1)
        edges = _equal_mass_edges(confidence)
        gaps = _calibration_gaps(confidence, predicted == val_targets, edges).to(self.gamma.dtype)
        direction = torch.where(self.gamma > 0, 1.0, -1.0)
        gamma = self.gamma * torch.exp(direction * self.lam * gaps)
        flipped = torch.where(gamma > 0, -_SMALLEST_GAMMA, _SMALLEST_GAMMA)
        gamma = torch.where(gamma.abs() < _SMALLEST_GAMMA, flipped, gamma)
        self.gamma.copy_(gamma.clamp(*_GAMMA_RANGE))
        self.edges.copy_(edges[1:-1])

    def _exponents(self, log_p: Tensor) -> Tensor:
        """γ_b of each log-probability's bin b."""
        bins = torch.bucketize(log_p.detach().exp(), self.edges, right=True)
        return self.gamma.to(log_p.dtype)[bins]


class AdaDualFocal(AdaFocal):
    """AdaDualFocal: dual focal loss with the adaptive exponents of :class:`AdaFocal`.

    The paper names this combination without a formula. Here γ_b is updated as in AdaFocal, and a
    negative γ_b selects −(1+p_y−p_j)^|γ_b| log p_y.

    Args:
        lam: Adaptation rate λ; with 0, γ stays 1.
    """

    source: ClassVar[str] = "Tao et al. 2023, section 5.2"
    formula: ClassVar[str] = "−(1−p_y+p_j)^γ_b log p_y, γ_b as in AdaFocal"

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_p, p_j = of_classes(log_probs, classes), next_below(log_probs, classes)
        gamma = self._exponents(log_p)
        # 1 − p + p_j for γ > 0, 1 + p − p_j for γ < 0
        base = 1 - gamma.sign() + gamma.sign() * (one_minus_p(log_p) + p_j)
        return -(base ** gamma.abs()) * log_p


def _equal_mass_edges(confidence: Tensor) -> Tensor:
    """Edges of equal-mass bins, (B + 1,): sorted confidences at ranks 0, N/B, 2N/B, ..., N."""
    ordered = confidence.sort().values
    last = len(ordered) - 1
    ranks = torch.linspace(
        0, len(ordered), _NUM_BINS + 1, dtype=torch.float64, device=ordered.device
    ).clamp_(max=last)
    below = ranks.long()
    above = (below + 1).clamp(max=last)
    return torch.lerp(ordered[below], ordered[above], (ranks - below).to(ordered.dtype))


def _calibration_gaps(confidence: Tensor, correct: Tensor, edges: Tensor) -> Tensor:
    """Mean confidence minus accuracy in each bin (lower, upper], (B,); 0 in empty bins."""
    # Masks instead of scatter_add_, which is nondeterministic on CUDA.
    bins = torch.bucketize(confidence, edges[1:-1]).masked_fill(confidence <= edges[0], -1)
    members = [bins == number for number in range(_NUM_BINS)]
    gaps = confidence - correct.to(confidence.dtype)
    sums = torch.stack([(gaps * inside).sum() for inside in members])
    return sums / torch.stack([inside.sum() for inside in members]).clamp(min=1)
