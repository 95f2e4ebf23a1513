"""Margin-based label smoothing."""

from typing import ClassVar

from torch import Tensor

from trainables.arguments import check_number
from trainables.losses.closed_form import ClosedFormLoss, log_softmax


def cross_entropy_with_distances(
    logits: Tensor, targets: Tensor, largest_class: Tensor, slopes: Tensor, weight: float
) -> tuple[Tensor, Tensor]:
    """Cross-entropy, and its gradient plus that of a function of logit distances.

    Args:
        logits: (N, K).
        targets: (N,) int64.
        largest_class: (N, 1), where the largest logit is.
        slopes: (N, K), derivative of a sample's function by d_k = max_j z_j − z_k.
        weight: What the function is multiplied by.
    """
    log_probs, classes = log_softmax(logits), targets.unsqueeze(1)
    log_p = log_probs.gather(1, classes)
    gradient = log_probs.exp_().sub_(slopes, alpha=weight).mul_(1 / len(logits))
    by_largest = slopes.sum(1, keepdim=True).mul_(weight / len(logits))
    gradient.scatter_add_(1, largest_class, by_largest)
    value = log_p.mean().neg_()
    return value, gradient.scatter_add_(1, classes, log_p.fill_(-1 / len(logits)))


class MarginLabelSmoothing(ClosedFormLoss):
    """Cross-entropy + λ · excess of logit distances over a margin.

    The penalty is the mean over samples and classes.

    Args:
        num_classes: Number K of classes.
        margin: Distance m in [0, 1000] to the largest logit from which on a logit is penalised.
        lam: Weight λ in [0, 1000].
    """

    source: ClassVar[str] = "Liu et al. 2022; Liu et al. 2023 (CALS), eq. 3"
    formula: ClassVar[str] = "−log p_y + λ mean_k max(0, max_j z_j − z_k − m)"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True

    def __init__(self, num_classes: int, margin: float = 10.0, lam: float = 0.1) -> None:
        super().__init__(num_classes)
        self.margin = check_number("margin", margin, 0, 1000)
        self.lam = check_number("lam", lam, 0, 1000)

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        largest, largest_class = logits.max(1, keepdim=True)
        excess = (largest - self.margin - logits).clamp_min_(0)
        penalty = excess.mean()
        value, gradient = cross_entropy_with_distances(
            logits, targets, largest_class, excess.sign_(), self.lam / self.num_classes
        )
        return value.add_(penalty, alpha=self.lam), gradient

    def class_terms(self, logits: Tensor) -> Tensor:
        excess = (logits.amax(1, keepdim=True) - self.margin - logits).clamp_min(0)
        return self.lam * excess.mean(1, keepdim=True) - logits.log_softmax(1)
