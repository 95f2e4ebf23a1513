"""Class-adaptive label smoothing: margins on logit distances, with one multiplier per class."""

from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import PerSampleLoss, of_classes
from trainables.losses.mbls import excess
from trainables.plugins.arguments import Range, check_choice, check_integer

PENALTIES: Final = ("phr", "p2", "p3")
_LAM_RANGE: Final = Range(1e-6, 1e6)
_LARGEST_RHO: Final = 10
_HEURISTIC_FACTOR: Final = 1.1


def penalty(kind: str, z: Tensor, rho: Tensor, lam: Tensor) -> Tensor:
    """Penalty-Lagrangian function P(z, ρ, λ) of CALS, appendix A, of each constraint, (N, K).

    ``kind`` is one of :data:`PENALTIES`; a positive constraint z (N, K) is a violation; the penalty
    parameters ρ and the multipliers λ (K,) are positive.
    """
    if kind == "phr":
        return (F.relu(torch.addcmul(lam, rho, z)).square() - lam.square()) / (2 * rho)
    # Either z <= 0 or z > 0: the terms of the other branch are zero.
    inside, outside = z.clamp(max=0), F.relu(z)
    value = lam * inside / (1 - rho * inside) + lam * outside + lam * rho * outside.square()
    return value + rho.square() * outside.pow(3) / 6 if kind == "p2" else value


class AugmentedLagrangian(PerSampleLoss):
    """CALS-ALM: cross-entropy plus a margin penalty, an augmented Lagrangian with K multipliers.

    The penalty is the mean over samples and classes. After each epoch, λ_k is set to the mean over
    validation samples of P′, clipped per sample to [1e-6, 1e6]. Then, every ``period`` epochs but
    never after the first, ρ_k is multiplied by ``growth``, up to 10, if the mean constraint of
    class k is positive and exceeds ``improvement`` times its value one epoch earlier.

    Args:
        margin: Margin m: the constraint of class k is violated if max_j z_j − z_k > m.
        lam: Initial multiplier λ of each class.
        rho: Initial penalty parameter ρ of each class.
        growth: Growth factor γ of ρ.
        improvement: Factor τ by which a violated constraint must shrink per epoch.
        period: Number of epochs between updates of ρ.
        penalty: ``phr``, ``p2`` or ``p3``.

    Attributes:
        lam: Buffer (K,), the multipliers.
        rho: Buffer (K,), the penalty parameters.
    """

    source: ClassVar[str] = "Liu et al. 2023 (CALS), algorithm 2, eq. 11-13, table 4"
    formula: ClassVar[str] = "−log p_y + mean_k P((max_j z_j − z_k)/m − 1, ρ_k, λ_k)"
    bounds: ClassVar = {
        "margin": Range(0, 1000, open_low=True),
        "lam": _LAM_RANGE,
        "rho": Range(0, 1000, open_low=True),
        "growth": Range(1, 100),
        "improvement": Range(0, 1, open_low=True),
    }
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
        self.margin = self.check("margin", margin)
        self.growth = self.check("growth", growth)
        self.improvement = self.check("improvement", improvement)
        self.period = check_integer("period", period, low=1)
        self.penalty = check_choice("penalty", penalty, PENALTIES)
        self.register_buffer("lam", torch.full((num_classes,), self.check("lam", lam)))
        self.register_buffer("rho", torch.full((num_classes,), self.check("rho", rho)))
        self.register_buffer("previous_constraint", torch.zeros(num_classes))
        self.register_buffer("epochs", torch.tensor(0))

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        rho, lam = self.rho.to(logits.dtype), self.lam.to(logits.dtype)
        constraints = self._constraints(logits)
        penalties = penalty(self.penalty, constraints, rho, lam).mean(1, keepdim=True)
        return penalties - of_classes(logits.log_softmax(1), classes)

    @torch.inference_mode(False)  # Lightning's hooks run in it, and autograd would fail
    @torch.no_grad()
    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Updates λ with the current ρ, then updates ρ."""
        constraints = self._constraints(val_logits).to(self.rho.dtype)
        constraint = constraints.mean(0)
        with torch.enable_grad():
            constraints.requires_grad_()
            penalties = penalty(self.penalty, constraints, self.rho, self.lam).sum()
        (slopes,) = torch.autograd.grad(penalties, constraints)
        self.epochs += 1
        stuck = constraint > self.improvement * self.previous_constraint.clamp(min=0)
        due = (self.epochs > 1) & (self.epochs % self.period == 0)
        self.lam.copy_(slopes.clamp(_LAM_RANGE.low, _LAM_RANGE.high).mean(0))
        # A ρ that starts below 1 grows from there, and one above 10 stays.
        grown = self.rho.maximum((self.rho * self.growth).clamp(max=_LARGEST_RHO))
        self.rho.copy_(torch.where(due & stuck, grown, self.rho))
        self.previous_constraint.copy_(constraint)

    def _constraints(self, logits: Tensor) -> Tensor:
        """(max_j z_j − z_k)/m − 1 for each class k, (N, K)."""
        return (logits.max(1, keepdim=True).values - self.margin - logits) / self.margin


class HeuristicMultipliers(PerSampleLoss):
    """CALS-HR: margin-based label smoothing with one multiplier per class, set by a heuristic rule.

    The penalty is the mean over samples and classes of λ_k · max(0, max_j z_j − z_k − m); as in the
    authors' code, it is not divided by the margin. After each epoch but the first, λ_k is
    multiplied by 1.1 if the mean validation penalty of class k exceeds 1.1 times its previous
    value, divided by 1.1 if it falls below 1/1.1 of it, and clipped to [1e-6, 1e6].

    Args:
        margin: Margin m: class k is penalised if max_j z_j − z_k > m.
        lam: Initial multiplier λ of each class; 0.1 in the authors' code.

    Attributes:
        lam: Buffer (K,), the multipliers.
    """

    source: ClassVar[str] = "Liu et al. 2023 (CALS), eq. 15"
    formula: ClassVar[str] = "−log p_y + mean_k λ_k max(0, max_j z_j − z_k − m)"
    bounds: ClassVar = {"margin": Range(0, 1000), "lam": _LAM_RANGE}
    lam: Tensor
    previous_score: Tensor
    epochs: Tensor

    def __init__(self, num_classes: int, margin: float = 10.0, lam: float = 0.1) -> None:
        super().__init__(num_classes)
        self.margin = self.check("margin", margin)
        self.register_buffer("lam", torch.full((num_classes,), self.check("lam", lam)))
        self.register_buffer("previous_score", torch.zeros(num_classes))
        self.register_buffer("epochs", torch.tensor(0))

    def class_terms(self, logits: Tensor, classes: Tensor | None) -> Tensor:
        penalty = excess(logits, self.margin) @ self.lam.to(logits.dtype) / self.num_classes
        return penalty.unsqueeze(1) - of_classes(logits.log_softmax(1), classes)

    @torch.no_grad()
    def on_validation_end(self, val_logits: Tensor, val_targets: Tensor) -> None:
        """Updates λ by the heuristic rule."""
        score = self.lam * excess(val_logits, self.margin).mean(0).to(self.lam.dtype)
        factor = torch.ones_like(score)
        factor[score > _HEURISTIC_FACTOR * self.previous_score] = _HEURISTIC_FACTOR
        factor[score < self.previous_score / _HEURISTIC_FACTOR] = 1 / _HEURISTIC_FACTOR
        lam = torch.where(self.epochs > 0, self.lam * factor, self.lam)
        self.lam.copy_(lam.clamp(_LAM_RANGE.low, _LAM_RANGE.high))
        self.previous_score.copy_(score)
        self.epochs += 1
