"""Calibration by pairwise constraints."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.plugins.arguments import Range

_MAX_PAIRS: Final = 2**17
"""Pairs of logits per block, so that a block fits into the CPU cache."""


@dataclass(eq=False, repr=False)
class PairwiseConstraints(PerSampleLoss):
    """CPC: cross-entropy plus binary discrimination and binary exclusion on pairs of logits.

    Discrimination separates the true class from each other class: the mean over j ≠ y of
    −log σ(z_y − z_j). Exclusion keeps the logits of the other classes close to each other:
    −½ Σ_{j,k≠y} log σ(z_j − z_k) / ((K−1)(K−2)). As in the CALS code, the sum includes j = k. With
    two classes, exclusion is 0.

    Takes O(N K²) time, and O(N K²) memory with soft targets.

    Args:
        lam_discrimination: Weight λ_d of discrimination.
        lam_exclusion: Weight λ_e of exclusion.
    """

    source: ClassVar[str] = "Cheng and Vasconcelos 2022, eq. 11-14"
    formula: ClassVar[str] = (
        "−log p_y − λ_d mean_{j≠y} logσ(z_y−z_j) − λ_e/2 Σ_{j,k≠y} logσ(z_j−z_k) / ((K−1)(K−2))"
    )

    lam_discrimination: Annotated[float, Range(0, 1000)] = 10.0
    lam_exclusion: Annotated[float, Range(0, 1000)] = 1.0

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        wrong, z_y = self.num_classes - 1, of_classes(logits, classes).unsqueeze(2)
        # The sums over all classes include the true class, which adds −log σ(0) = log 2.
        above = F.softplus(logits.unsqueeze(1) - z_y).sum(2)
        loss = -of_classes(logits.log_softmax(1), classes)
        loss = loss + self.lam_discrimination / wrong * (above - math.log(2))
        if self.num_classes > 2 and self.lam_exclusion > 0:
            below = F.softplus(z_y - logits.unsqueeze(1)).sum(2)
            pairs = sum_of_pairs(logits) - above - below + math.log(2)
            loss = loss + self.lam_exclusion / 2 / (wrong * (wrong - 1)) * pairs
        return loss


def sum_of_pairs(z: Tensor) -> Tensor:
    """Σ_jk −log σ(z_j − z_k) of each row, (N, K) -> (N, 1)."""
    sums: Tensor = _SumOfPairs.apply(z)[0]
    return sums


class _SumOfPairs(torch.autograd.Function):
    """Sums block by block with a hand-written gradient.

    Autograd would store N K² numbers: 4 GB for N = K = 1,000 in float32.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> tuple[Tensor, Tensor]:
        num_classes, sums, slopes = z.shape[1], [], []
        rows = torch.arange(len(z), device=z.device).repeat_interleave(num_classes)
        size = max(1, _MAX_PAIRS // num_classes)
        for z_j, row in zip(torch.split(z.flatten(), size), torch.split(rows, size), strict=True):
            differences = z_j.unsqueeze(1) - z[row]
            sums.append(F.softplus(differences).sum(1))
            slopes.append(2 * differences.sigmoid_().sum(1) - num_classes)
        return torch.cat(sums).view_as(z).sum(1, keepdim=True), torch.cat(slopes).view_as(z)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, by_sums: Tensor, _: Tensor) -> Tensor:
        z: Tensor
        slopes: Tensor
        z, slopes = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            slopes = (2 * torch.sigmoid(z.unsqueeze(2) - z.unsqueeze(1)) - 1).sum(2)
        return slopes * by_sums
