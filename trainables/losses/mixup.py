"""Mixup training."""

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.arguments import check_number
from trainables.internals import standard_gamma
from trainables.losses.base import CalibrationLoss


class Mixup(CalibrationLoss):
    """Cross-entropy on convex mixtures of inputs and labels.

    Each augmented batch is mixed with a permutation of itself, with one weight from Beta(α, α).

    Args:
        num_classes: Number K of classes.
        alpha: Parameter α in [0.001, 100] of the Beta distribution; the smaller, the less is mixed.
    """

    source: ClassVar[str] = "Zhang et al. 2018, eq. 1; Thulasidasan et al. 2019, section 2"
    formula: ClassVar[str] = "−w log p_y(wx+(1−w)x′) − (1−w) log p_y′(wx+(1−w)x′), w ~ Beta(α, α)"
    looks_across_batch: ClassVar[bool] = False
    mixes_inputs: ClassVar[bool] = True
    soft_targets: ClassVar[bool] = True

    def __init__(self, num_classes: int, alpha: float = 0.2) -> None:
        super().__init__(num_classes)
        self.alpha = check_number("alpha", alpha, 1e-3, 100)

    def compute(
        self, logits: Tensor, targets: Tensor, indices: Tensor | None, features: Tensor | None
    ) -> Tensor:
        if targets.is_floating_point():
            targets = targets.to(logits.dtype)
        return F.cross_entropy(logits, targets)

    def prepare_batch(
        self,
        inputs: Tensor,
        targets: Tensor,
        *,
        augment: Callable[[Tensor], Tensor],
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Mixes a batch.

        Returns:
            Inputs of the shape given and targets (N, K), of the inputs' dtype.

        Raises:
            TypeError: Inputs are not floating point, so that there is nothing between two.
        """
        inputs = augment(inputs)
        if not inputs.is_floating_point():
            raise TypeError(f"mixup needs floating-point inputs, got {inputs.dtype}")
        order = torch.randperm(len(inputs), generator=generator, device=inputs.device)
        weight = _sample_beta(self.alpha, generator, inputs.device).to(inputs.dtype)
        if not targets.is_floating_point():
            targets = F.one_hot(targets, self.num_classes)
        labels = targets.to(inputs.dtype)
        return torch.lerp(inputs[order], inputs, weight), torch.lerp(labels[order], labels, weight)


def _sample_beta(alpha: float, generator: torch.Generator, device: torch.device) -> Tensor:
    """One number from Beta(α, α).

    ``torch.distributions`` takes no generator, and a plain ratio of gamma variables is 0/0 for
    small α. Gamma(α) is distributed as Gamma(α+1)·U^(1/α), whose logarithm does not underflow.
    """
    shape = torch.full((2,), alpha + 1, device=device)
    gamma = standard_gamma(shape, generator)
    uniform = 1 - torch.rand(2, generator=generator, device=device)
    first, second = gamma.log() + uniform.log() / alpha
    return torch.sigmoid(first - second)
