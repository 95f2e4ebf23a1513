"""Supervised contrastive loss: trains the encoder, the first stage of RefCal."""

from collections.abc import Callable
from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.base import CalibrationLoss
from trainables.losses.closed_form import with_gradient

_SMALLEST_NORM: Final = 1e-12


class SupervisedContrastive(CalibrationLoss):
    """Draws features of a class together and apart from all others; the classifier is not trained.

    Features are scaled to unit length here. Each sample is compared with all others of the batch,
    which holds two augmented views of each image; positives are those of its class. A sample
    without positives adds 0 but counts in the mean.

    The authors' code multiplies by temperature / 0.07, which the papers do not have and which
    acts on the learning rate.

    Args:
        num_classes: Number K of classes.
        temperature: τ in [1e-4, 100].
        base_temperature: If given, the loss is multiplied by τ / base_temperature; 0.07 gives the
            authors' code.
    """

    source: ClassVar[str] = "Khosla et al. 2020, eq. 2; RefCal, eq. 4"
    formula: ClassVar[str] = "−mean_{p∈P(i)} log(exp(f_i·f_p/τ) / Σ_{a≠i} exp(f_i·f_a/τ))"
    needs_features: ClassVar[bool] = True
    trains_classifier: ClassVar[bool] = False

    def __init__(
        self,
        num_classes: int,
        temperature: float = 0.1,
        base_temperature: float | None = None,
    ) -> None:
        super().__init__(num_classes)
        self.temperature = check_number("temperature", temperature, 1e-4, 100)
        self.scale = 1.0
        if base_temperature is not None:
            base = check_number("base_temperature", base_temperature, 1e-4, 100)
            self.scale = self.temperature / base

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        assert features is not None  # checked by forward
        return with_gradient(lambda: self._value_and_gradient(features, targets), features)

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

    def _value_and_gradient(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        norms = torch.linalg.vector_norm(features, dim=1, keepdim=True).clamp_min_(_SMALLEST_NORM)
        directions = features / norms
        similarity = (directions @ directions.T).div_(self.temperature)
        # A finite mask: a batch of one sample has no others, and gives 0 rather than NaN.
        similarity.fill_diagonal_(torch.finfo(features.dtype).min)
        log_probs = similarity.log_softmax(1)
        positives = (targets.unsqueeze(1) == targets).to(features.dtype).fill_diagonal_(0)
        counts = positives.sum(1, keepdim=True)
        positives.div_(counts.clamp(min=1))
        scale = self.scale / len(targets)
        value = (positives * log_probs).sum() * -scale
        by_similarity = log_probs.exp_().mul_(counts.clamp_(max=1)).sub_(positives)
        by_directions = (by_similarity + by_similarity.T) @ directions
        by_directions.mul_(scale / self.temperature)
        along = (by_directions * directions).sum(1, keepdim=True)
        return value, by_directions.addcmul_(directions, along, value=-1).div_(norms)
