"""Multi-class difference in confidence and accuracy."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from torch import Tensor

from trainables.losses.base import CalibrationLoss, Extra
from trainables.losses.focal import one_minus_p
from trainables.plugins.arguments import Range


@dataclass(eq=False, repr=False)
class ClasswiseDifference(CalibrationLoss):
    """MDCA: focal loss + β · mean over classes of |mean p_k − share of class k| in the batch.

    The mean includes classes that are absent from the batch.

    Args:
        gamma: Exponent γ of the focal loss; 0 gives cross-entropy.
        beta: Weight β of the class-wise difference.
    """

    source: ClassVar[str] = "Hebbalaguppe et al. 2022, eq. 4-5"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y + β/K Σ_k |mean_i p_ik − mean_i 1[y_i=k]|"

    gamma: Annotated[float, Range(0, 100)] = 1.0
    beta: Annotated[float, Range(0, 1000)] = 1.0

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_p = log_probs.gather(1, targets.unsqueeze(1))
        focal = -(one_minus_p(log_p) ** self.gamma) * log_p
        # Sums of ones are exact, so their order on CUDA does not matter.
        counts = logits.new_zeros(self.num_classes)
        counts.index_add_(0, targets, logits.new_ones(len(targets)))
        difference = (log_probs.exp().mean(0) - counts / len(targets)).abs().mean()
        return focal.mean() + self.beta * difference
