"""Multi-class difference in confidence and accuracy."""

from typing import ClassVar

from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax
from trainables.losses.focal import one_minus_p, power_terms


class ClasswiseDifference(ClosedFormLoss):
    """Focal loss + β · mean over classes of |mean p_k − share of class k| in the batch.

    All K classes count, also those absent from the batch.

    Args:
        num_classes: Number K of classes.
        gamma: Exponent γ in [0, 100] of the focal loss; 0 is cross-entropy.
        beta: Weight β in [0, 1000].
    """

    source: ClassVar[str] = "Hebbalaguppe et al. 2022, eq. 4-5"
    formula: ClassVar[str] = "−(1−p_y)^γ log p_y + β/K Σ_k |mean_i p_ik − mean_i 1[y_i=k]|"

    def __init__(self, num_classes: int, gamma: float = 1.0, beta: float = 1.0) -> None:
        super().__init__(num_classes)
        self.gamma = check_number("gamma", gamma, 0, 100)
        self.beta = check_number("beta", beta, 0, 1000)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
        log_p = log_probs.gather(1, classes)
        value, by_log_p = power_terms(log_p, one_minus_p(log_p), self.gamma)
        probs = log_probs.exp_()
        difference = probs.sum(0)
        difference.scatter_add_(0, targets, log_p.fill_(-1).squeeze(1))
        by_probs = difference.sign().mul_(self.beta / logits.numel())
        value += by_probs.dot(difference)
        inner = (probs @ by_probs).unsqueeze_(1).add_(by_log_p)
        return value, (by_probs - inner).mul_(probs).scatter_add_(1, classes, by_log_p)
