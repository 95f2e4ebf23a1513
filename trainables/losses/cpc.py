"""Calibration by pairwise constraints."""

import math
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax

_MAX_PAIRS: Final = 2**17
"""Pairs of classes that are looked at at a time: what fits a cache is twice as fast."""

_MAX_FACTORS: Final = 64
"""Numbers up to 2 whose product is a float32 for sure, whatever order they are multiplied in."""


class PairwiseConstraints(ClosedFormLoss):
    """Cross-entropy + binary discrimination + binary exclusion on pairs of logits.

    Discrimination tells the true class from each wrong one: the mean over wrong classes of
    −logsigmoid(z_y − z_j). Exclusion keeps wrong classes alike: −½ Σ_{j,k≠y} logsigmoid(z_j − z_k)
    / ((K−1)(K−2)), a sum that includes j = k, as in the CALS code; it is 0 for two classes.

    Takes O(N K²) time.

    Args:
        num_classes: Number K of classes.
        lam_discrimination: Weight λ_d in [0, 1000].
        lam_exclusion: Weight λ_e in [0, 1000].
    """

    source: ClassVar[str] = "Cheng and Vasconcelos 2022, eq. 11-14"
    formula: ClassVar[str] = (
        "−log p_y − λ_d mean_{j≠y} logσ(z_y−z_j) − λ_e/2 Σ_{j,k≠y} logσ(z_j−z_k) / ((K−1)(K−2))"
    )
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(
        self, num_classes: int, lam_discrimination: float = 10.0, lam_exclusion: float = 1.0
    ) -> None:
        super().__init__(num_classes)
        self.lam_discrimination = check_number("lam_discrimination", lam_discrimination, 0, 1000)
        self.lam_exclusion = check_number("lam_exclusion", lam_exclusion, 0, 1000)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        share, value = 1 / len(logits), log_probs.gather(1, classes).mean().neg_()
        wrong = torch.arange(self.num_classes - 1, device=logits.device).expand(len(logits), -1)
        wrong = wrong + (wrong >= classes)
        wrong_logits = logits.gather(1, wrong)

        weight = share * self.lam_discrimination / (self.num_classes - 1)
        lead = logits.gather(1, classes) - wrong_logits
        value.add_(F.softplus(-lead).sum(), alpha=weight)
        by_wrong = torch.sigmoid(-lead).mul_(weight)
        gradient = log_probs.exp_().mul_(share)
        gradient.scatter_add_(1, classes, by_wrong.sum(1, keepdim=True).add_(share).neg_())

        if self.lam_exclusion > 0 and self.num_classes > 2:
            num_pairs = (self.num_classes - 1) * (self.num_classes - 2)
            weight = share * self.lam_exclusion / (2 * num_pairs)
            exclusion, by_exclusion = pairwise_softplus(wrong_logits)
            value.add_(exclusion, alpha=weight)
            by_wrong.add_(by_exclusion, alpha=weight)
        return value, gradient.scatter_add_(1, wrong, by_wrong)

    def class_terms(self, logits: Tensor) -> Tensor:
        """See the base class; takes O(N K²) memory."""
        wrong, terms = self.num_classes - 1, -logits.log_softmax(1)
        pairs = F.softplus(logits.unsqueeze(1) - logits.unsqueeze(2))  # of z_k − z_j at [j, k]
        itself, lead, lag = math.log(2), pairs.sum(2), pairs.sum(1)
        terms = terms + self.lam_discrimination / wrong * (lead - itself)
        if self.num_classes > 2:
            others = lead.sum(1, keepdim=True) - lead - lag + itself
            terms = terms + self.lam_exclusion / (2 * wrong * (wrong - 1)) * others
        return terms


def pairwise_softplus(z: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over samples and ordered pairs (j, k) of log(1 + exp(z_j − z_k)), and its gradient.

    Args:
        z: (N, K).

    Returns:
        A scalar and (N, K).
    """
    count, num_classes = z.shape
    half, gradient = z / 2, torch.empty_like(z)
    value = z.new_full((), count * num_classes**2 * math.log(2), dtype=torch.float64)
    height = min(num_classes, _MAX_FACTORS)
    size = max(1, _MAX_PAIRS // (height * num_classes))
    for rows, by_rows in zip(torch.split(half, size), torch.split(gradient, size), strict=True):
        for part, by_part in zip(
            torch.split(rows, height, 1), torch.split(by_rows, height, 1), strict=True
        ):
            # With d = z_j − z_k and t = tanh(d/2), a pair's two orders add up to
            # |d| + 2 log(1 + exp(−|d|)) = |d| + 2 log 2 − 2 log(1 + |t|), their slopes to t.
            # Logarithms are the dearest, and one does for the product of many 1 + |t|.
            difference = part.unsqueeze(2) - rows.unsqueeze(1)
            slopes = torch.tanh(difference)
            torch.sum(slopes, 2, out=by_part)
            value += difference.abs_().sum()
            value -= slopes.abs_().add_(1).prod(1).log_().sum()
    return value.to(z.dtype), gradient
