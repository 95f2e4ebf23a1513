"""The refinement loss of RefCal, of which the supervised contrastive loss is an upper bound."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import EncoderLoss, Extra


class Refinement(EncoderLoss):
    """L_ref: pulls the nearest sample of the same class, pushes that of another; encoder only.

    f are the features, normalised to unit length by this loss, so ½‖f_i − f_j‖² = 1 − f_i·f_j. The
    batch holds two augmented views of each input. P(i) are the other samples of the class of i, and
    N(i) those of other classes. A minimum over an empty set adds 0.
    """

    source: ClassVar[str] = "RefCal, eq. 3"
    formula: ClassVar[str] = "min_{p∈P(i)} ½‖f_i−f_p‖² − min_{n∈N(i)} ½‖f_i−f_n‖²"

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        assert features is not None  # checked by forward
        directions = F.normalize(features, dim=1)
        similarity = directions @ directions.T
        same = targets.unsqueeze(1) == targets
        itself = torch.eye(len(features), dtype=torch.bool, device=features.device)
        nearest = [_largest(similarity, sort) for sort in (same & ~itself, ~same)]
        return (nearest[1] - nearest[0]).mean()


def _largest(similarity: Tensor, allowed: Tensor) -> Tensor:
    """Largest allowed f_i·f_j − 1 of each row; 0 if none is allowed."""
    largest = similarity.masked_fill(~allowed, -2).amax(1) - 1
    return torch.where(allowed.any(1), largest, 0)
