"""Supervised contrastive loss: trains the encoder, the first stage of RefCal."""

from collections.abc import Callable
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import CalibrationLoss
from trainables.plugins.arguments import Bounds

_TEMPERATURES: Final = Bounds(1e-4, 100)


class SupervisedContrastive(CalibrationLoss):
    """Draws features of a class together and apart from all others; the classifier is not trained.

    Features are scaled to unit length here. Each sample is compared with all others of the batch,
    which holds two augmented views of each image; positives are those of its class. A sample
    without positives adds 0 but counts in the mean.

    The authors' code multiplies by temperature / 0.07, which the papers do not have and which
    acts on the learning rate.

    Args:
        num_classes: Number K of classes.
        temperature: Temperature τ.
        base_temperature: If given, the loss is multiplied by τ / base_temperature; 0.07 gives the
            authors' code.
    """

    source: ClassVar[str] = "Khosla et al. 2020, eq. 2; RefCal, eq. 4"
    formula: ClassVar[str] = "−mean_{p∈P(i)} log(exp(f_i·f_p/τ) / Σ_{a≠i} exp(f_i·f_a/τ))"
    needs_features: ClassVar[bool] = True
    trains_classifier: ClassVar[bool] = False
    views: ClassVar[int] = 2
    bounds: ClassVar = {"temperature": _TEMPERATURES, "base_temperature": _TEMPERATURES}

    def __init__(
        self,
        num_classes: int,
        temperature: float = 0.1,
        base_temperature: float | None = None,
    ) -> None:
        super().__init__(num_classes)
        self.temperature = self.check("temperature", temperature)
        self.scale = 1.0
        if base_temperature is not None:
            self.scale = self.temperature / self.check("base_temperature", base_temperature)

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        assert features is not None  # checked by forward
        directions = F.normalize(features, dim=1)
        similarity = directions @ directions.T / self.temperature
        # A finite mask: a batch of one sample has no others, and gives 0 rather than NaN.
        log_shares = similarity.fill_diagonal_(torch.finfo(features.dtype).min).log_softmax(1)
        positive = (targets.unsqueeze(1) == targets).to(features.dtype).fill_diagonal_(0)
        total = (positive * log_shares).sum(1)
        return -self.scale * (total / positive.sum(1).clamp(min=1)).mean()

    def prepare_batch(
        self,
        inputs: Tensor,
        targets: Tensor,
        *,
        augment: Callable[[Tensor], Tensor],
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Two augmented views of each input, (2N, ...), and the labels twice, (2N,)."""
        return torch.cat([augment(inputs), augment(inputs)]), targets.repeat(2)
