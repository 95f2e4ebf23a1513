"""Class adaptive label smoothing: margins on logit distances, with a multiplier per class."""

from typing import ClassVar, Final

import torch
from torch import Tensor

from trainables.arguments import check_choice, check_integer, check_number
from trainables.losses.closed_form import ClosedFormLoss
from trainables.losses.mbls import cross_entropy_with_distances

PENALTIES: Final = ("phr", "p2", "p3")
_LAM_RANGE: Final = (1e-6, 1e6)
_RHO_RANGE: Final = (1.0, 10.0)
_HEURISTIC_FACTOR: Final = 1.1


def penalty_and_slope(kind: str, z: Tensor, rho: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
    """Penalty-Lagrangian function P(z, ρ, λ) of CALS, appendix A, and its derivative by z.

    Args:
        kind: One of :data:`PENALTIES`.
        z: (N, K), constraints; violated where positive.
        rho: (K,), penalty parameters, positive.
        lam: (K,), multipliers, positive.

    Returns:
        The mean over samples, (K,), and the derivative of each sample's penalty, (N, K).
    """
    if kind == "phr":
        slope = torch.addcmul(lam, z, rho).clamp_min_(0)
        squares = torch.linalg.vector_norm(slope, dim=0).square_().div_(len(z))
        return (squares - lam.square()) / (2 * rho), slope
    inside, outside = z.clamp(max=0), z.clamp(min=0)
    slope = lam / (1 - rho * inside).square() + 2 * lam * rho * outside
    if kind == "p2":
        slope += rho.square() * outside.square() / 2
    return penalty_of_each(kind, z, rho, lam).mean(0), slope


def penalty_of_each(kind: str, z: Tensor, rho: Tensor, lam: Tensor) -> Tensor:
    """P(z, ρ, λ) of each sample and class, (N, K), differentiable; arguments as above."""
    if kind == "phr":
        return ((lam + rho * z).clamp_min(0).square() - lam.square()) / (2 * rho)
    # One of the two is zero, and so is its branch.
    inside, outside = z.clamp(max=0), z.clamp(min=0)
    value = lam * inside / (1 - rho * inside) + lam * outside + lam * rho * outside.square()
    return value + rho.square() * outside.pow(3) / 6 if kind == "p2" else value


class AugmentedLagrangian(ClosedFormLoss):
    """CALS-ALM: cross-entropy + penalties whose multipliers follow the validation split.

    The penalty is the mean over samples and classes. After each epoch λ_k becomes the mean over
    validation samples of P′, clipped per sample to [1e-6, 1e6]; then, every ``period`` epochs
    but never in the first, ρ_k grows where the class's mean constraint is positive and has not
    fallen below ``improvement`` times that of the epoch before, up to 10.

    Args:
        num_classes: Number K of classes.
        margin: Distance m in (0, 1000] to the largest logit from which on the constraint is
            violated.
        lam: Initial multiplier λ of each class, in [1e-6, 1e6].
        rho: Initial penalty parameter ρ of each class, in (0, 1000].
        growth: Factor γ in [1, 100] by which ρ grows.
        improvement: Factor τ in (0, 1] by which a constraint has to fall.
        period: Number of epochs between updates of ρ.
        penalty: ``phr``, ``p2`` or ``p3``.

    Attributes:
        lam: Buffer (K,), the multipliers.
        rho: Buffer (K,), the penalty parameters.
    """

    source: ClassVar[str] = "Liu et al. 2023 (CALS), algorithm 2, eq. 11-13, table 4"
    formula: ClassVar[str] = "−log p_y + mean_k P((max_j z_j − z_k)/m − 1, ρ_k, λ_k)"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True
    lam: Tensor
    rho: Tensor
    previous_constraint: Tensor
    epochs: Tensor

    def __init__(
        self,
        num_classes: int,
        margin: float = 10.0,
        lam: float = 1e-6,
        rho: float = 1.0,
        growth: float = 1.2,
        improvement: float = 0.9,
        period: int = 10,
        penalty: str = "phr",
    ) -> None:
        super().__init__(num_classes)
        self.margin = check_number("margin", margin, 0, 1000, open_low=True)
        self.growth = check_number("growth", growth, 1, 100)
        self.improvement = check_number("improvement", improvement, 0, 1, open_low=True)
        self.period = check_integer("period", period, low=1)
        self.penalty = check_choice("penalty", penalty, PENALTIES)
        lam = check_number("lam", lam, *_LAM_RANGE)
        rho = check_number("rho", rho, 0, 1000, open_low=True)
        self.register_buffer("lam", torch.full((num_classes,), lam))
        self.register_buffer("rho", torch.full((num_classes,), rho))
        self.register_buffer("previous_constraint", torch.zeros(num_classes))
        self.register_buffer("epochs", torch.tensor(0))

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        rho, lam = self.rho.to(logits.dtype), self.lam.to(logits.dtype)
        largest, largest_class = logits.max(1, keepdim=True)
        constraints = (largest - logits).div_(self.margin).sub_(1)
        penalties, slopes = penalty_and_slope(self.penalty, constraints, rho, lam)
        weight = 1 / (self.margin * self.num_classes)
        value, gradient = cross_entropy_with_distances(
            logits, targets, largest_class, slopes, weight
        )
        return value.add_(penalties.mean()), gradient

    def class_terms(self, logits: Tensor) -> Tensor:
        rho, lam = self.rho.to(logits.dtype), self.lam.to(logits.dtype)
        constraints = (logits.amax(1, keepdim=True) - logits) / self.margin - 1
        penalties = penalty_of_each(self.penalty, constraints, rho, lam)
        return penalties.mean(1, keepdim=True) - logits.log_softmax(1)

    @torch.no_grad()
    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Updates λ with the old ρ, then ρ."""
        largest = val_logits.max(1, keepdim=True).values
        constraints = ((largest - val_logits) / self.margin - 1).to(self.rho.dtype)
        constraint = constraints.mean(0)
        _, slopes = penalty_and_slope(self.penalty, constraints, self.rho, self.lam)
        self.epochs += 1
        stuck = constraint > self.improvement * self.previous_constraint.clamp(min=0)
        due = (self.epochs > 1) & (self.epochs % self.period == 0)
        self.lam.copy_(slopes.clamp(*_LAM_RANGE).mean(0))
        grown = (self.rho * self.growth).clamp(*_RHO_RANGE)
        self.rho.copy_(torch.where(due & stuck, grown, self.rho))
        self.previous_constraint.copy_(constraint)


class HeuristicMultipliers(ClosedFormLoss):
    """CALS-HR: margin-based label smoothing with a multiplier per class, scaled by a rule.

    The penalty is λ_k · max(0, d_k − m), the mean over samples and classes, as in the authors'
    code (not divided by the margin). After each epoch from the second on, λ_k is multiplied by 1.1
    where the class's mean penalty on the validation split rose above 1.1 times the last one,
    divided by 1.1 where it fell below 1/1.1 of it, and clipped to [1e-6, 1e6].

    Args:
        num_classes: Number K of classes.
        margin: Distance m in [0, 1000] to the largest logit from which on a logit is penalised.
        lam: Initial multiplier λ of each class, in [1e-6, 1e6]; 0.1 in the authors' code.

    Attributes:
        lam: Buffer (K,), the multipliers.
    """

    source: ClassVar[str] = "Liu et al. 2023 (CALS), eq. 15"
    formula: ClassVar[str] = "−log p_y + mean_k λ_k max(0, max_j z_j − z_k − m)"
    looks_across_batch: ClassVar[bool] = False
    soft_targets: ClassVar[bool] = True
    several_labels: ClassVar[bool] = True
    each_pixel: ClassVar[bool] = True
    lam: Tensor
    previous_score: Tensor
    epochs: Tensor

    def __init__(self, num_classes: int, margin: float = 10.0, lam: float = 0.1) -> None:
        super().__init__(num_classes)
        self.margin = check_number("margin", margin, 0, 1000)
        lam = check_number("lam", lam, *_LAM_RANGE)
        self.register_buffer("lam", torch.full((num_classes,), lam))
        self.register_buffer("previous_score", torch.zeros(num_classes))
        self.register_buffer("epochs", torch.tensor(0))

    def value_and_gradient(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        lam = self.lam.to(logits.dtype)
        largest, largest_class = logits.max(1, keepdim=True)
        excess = (largest - self.margin - logits).clamp_min_(0)
        penalty = excess.sum(0).dot(lam)
        value, gradient = cross_entropy_with_distances(
            logits, targets, largest_class, excess.sign_().mul_(lam), 1 / self.num_classes
        )
        return value.add_(penalty, alpha=1 / logits.numel()), gradient

    def class_terms(self, logits: Tensor) -> Tensor:
        excess = (logits.amax(1, keepdim=True) - self.margin - logits).clamp_min(0)
        penalty = (excess * self.lam.to(logits.dtype)).mean(1, keepdim=True)
        return penalty - logits.log_softmax(1)

    @torch.no_grad()
    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Updates λ."""
        excess = val_logits.max(1, keepdim=True).values - val_logits - self.margin
        score = self.lam * excess.clamp_min(0).mean(0).to(self.lam.dtype)
        factor = torch.ones_like(score)
        factor[score > _HEURISTIC_FACTOR * self.previous_score] = _HEURISTIC_FACTOR
        factor[score < self.previous_score / _HEURISTIC_FACTOR] = 1 / _HEURISTIC_FACTOR
        self.lam.copy_(torch.where(self.epochs > 0, self.lam * factor, self.lam).clamp(*_LAM_RANGE))
        self.previous_score.copy_(score)
        self.epochs += 1
