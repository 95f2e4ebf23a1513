"""Supervised contrastive loss, the first stage of RefCal."""

from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.losses.base import EncoderLoss, Extra
from trainables.plugins.arguments import Range, check_integer

_TEMPERATURES: Final = Range(1e-4, 100)


class SupervisedContrastive(EncoderLoss):
    """SupCon: attracts features of the same class and repels all others; trains the encoder only.

    f are the features, normalised to unit length by this loss. The batch holds two augmented views
    of each input. P(i) are the other samples of the same class as i. A sample without positives
    adds 0 but counts in the mean.

    The authors' code multiplies the loss by τ / 0.07, which is in neither paper and acts like a
    change of the learning rate.

    Args:
        temperature: Temperature τ.
        base_temperature: If given, multiplies the loss by τ / base_temperature; 0.07 reproduces
            the authors' code.
        projection: Width of a projection head D → D → width with a ReLU, whose output takes the
            place of the features in the loss, and which is discarded after training; 128 in both
            papers. 0 is none. :meth:`on_features` creates it.
    """

    source: ClassVar[str] = "Khosla et al. 2020, eq. 2; RefCal, eq. 4"
    formula: ClassVar[str] = "−mean_{p∈P(i)} log(exp(f_i·f_p/τ) / Σ_{a≠i} exp(f_i·f_a/τ))"
    bounds: ClassVar = {"temperature": _TEMPERATURES, "base_temperature": _TEMPERATURES}

    def __init__(
        self,
        num_classes: int,
        temperature: float = 0.1,
        base_temperature: float | None = None,
        projection: int = 0,
    ) -> None:
        super().__init__(num_classes)
        self.temperature = self.check("temperature", temperature)
        self.scale = 1.0
        if base_temperature is not None:
            self.scale = self.temperature / self.check("base_temperature", base_temperature)
        self.width = check_integer("projection", projection, low=0)
        self.head: nn.Module | None = None if self.width else nn.Identity()

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        assert features is not None  # checked by forward
        if self.head is None:
            raise ValueError("supcon with a projection: call on_features(D) before the first step")
        directions = F.normalize(self.head(features), dim=1)
        similarity = directions @ directions.T / self.temperature
        itself = torch.eye(len(features), dtype=torch.bool, device=features.device)
        # The mask is finite, so a batch of one sample gives 0 instead of NaN.
        log_shares = similarity.masked_fill(itself, torch.finfo(features.dtype).min).log_softmax(1)
        positive = ((targets.unsqueeze(1) == targets) & ~itself).to(features.dtype)
        total = (positive * log_shares).sum(1)
        return -self.scale * (total / positive.sum(1).clamp(min=1)).mean()

    def on_features(self, num_features: int) -> None:
        """Creates the projection head, if there is one."""
        if self.width:
            hidden = nn.Linear(num_features, num_features)
            self.head = nn.Sequential(hidden, nn.ReLU(), nn.Linear(num_features, self.width))
