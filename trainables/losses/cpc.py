"""Calibration by pairwise constraints."""

from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.checks import check_number
from trainables.losses.closed_form import ClosedFormLoss

_MAX_PAIRS: Final = 2**21
"""Pairs of classes that are held in memory at a time."""


class PairwiseConstraints(ClosedFormLoss):
    """Cross-entropy + binary discrimination + binary exclusion on pairs of logits.

    Discrimination tells the true class from each wrong one: the mean over wrong classes of
    −logsigmoid(z_y − z_j). Exclusion keeps wrong classes alike: −½ Σ_{j,k≠y} logsigmoid(z_j − z_k)
    / ((K−1)(K−2)), a sum that includes j = k, as in the CALS code; it is 0 for two classes.

    Takes O(N K²) time.

    Args:
        num_classes: Number K of classes.
        lam_discrimination: Weight λ_d >= 0.
        lam_exclusion: Weight λ_e >= 0.
    """

    source: ClassVar[str] = "Cheng and Vasconcelos 2022, eq. 11-14"
    formula: ClassVar[str] = (
        "−log p_y − λ_d mean_{j≠y} logσ(z_y−z_j) − λ_e/2 Σ_{j,k≠y} logσ(z_j−z_k) / ((K−1)(K−2))"
    )
    looks_across_batch: ClassVar[bool] = False

    def __init__(
        self, num_classes: int, lam_discrimination: float = 10.0, lam_exclusion: float = 1.0
    ) -> None:
        super().__init__(num_classes)
        self.lam_discrimination = check_number("lam_discrimination", lam_discrimination, low=0)
        self.lam_exclusion = check_number("lam_exclusion", lam_exclusion, low=0)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = logits.log_softmax(1), targets.unsqueeze(1)
        total = -log_probs.gather(1, classes).sum()
        wrong = torch.arange(self.num_classes - 1, device=logits.device).expand(len(logits), -1)
        wrong = wrong + (wrong >= classes)
        wrong_logits = logits.gather(1, wrong)

        weight = self.lam_discrimination / (self.num_classes - 1)
        lead = logits.gather(1, classes) - wrong_logits
        total = total + weight * F.softplus(-lead).sum()
        by_wrong = weight * torch.sigmoid(-lead)
        gradient = log_probs.exp_()
        gradient.scatter_add_(1, classes, -1 - by_wrong.sum(1, keepdim=True))

        if self.lam_exclusion > 0 and self.num_classes > 2:
            weight = self.lam_exclusion / (2 * (self.num_classes - 1) * (self.num_classes - 2))
            exclusion, by_exclusion = pairwise_softplus(wrong_logits)
            total = total + weight * exclusion
            by_wrong.add_(by_exclusion, alpha=weight)
        return total / len(logits), gradient.scatter_add_(1, wrong, by_wrong)


def pairwise_softplus(z: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over samples and ordered pairs (j, k) of log(1 + exp(z_j − z_k)), and its gradient.

    Args:
        z: (N, K).

    Returns:
        A scalar and (N, K).
    """
    total, gradient = z.new_zeros(()), torch.empty_like(z)
    size = max(1, _MAX_PAIRS // z.shape[1] ** 2)
    for part, by_part in zip(torch.split(z, size), torch.split(gradient, size), strict=True):
        difference = part.unsqueeze(2) - part.unsqueeze(1)
        # The two orders of a pair add up to |d| + 2 log(1 + exp(−|d|)), their slopes to tanh(d/2).
        torch.sum(torch.tanh(difference / 2), 2, out=by_part)
        size_of = difference.abs_()
        total += size_of.sum() / 2 + size_of.neg_().exp_().log1p_().sum()
    return total, gradient
