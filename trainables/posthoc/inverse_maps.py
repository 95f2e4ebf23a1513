"""From the outputs of focal losses to class probabilities, the inverse of what they minimise at.

A focal loss is lowest at outputs q that are less confident than the class probabilities η. At a
stationary point of its expectation over η, the gradient in q has equal entries, which determines η
(Charoenphakdee et al. 2021, "On focal loss for class-posterior probability estimation", theorem 11,
for focal loss; the others are derived in the same way). It is exact for a network that reaches this
point, so it says nothing about one that overfits.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from trainables.plugins.arguments import check_choice, check_number

InvertibleLoss = Literal["focal", "focal_sample_dependent", "dual_focal", "focal_calibration"]
"""Losses whose minimiser determines η."""

_LOWEST = -700.0  # of log q: exp of it is positive in float64
MAX_SORTED = 100  # classes; dual focal loss has one step for each


@dataclass(frozen=True)
class InverseMap:
    """Log-probabilities log η, up to a constant per row, at whose η a loss is stationary in q.

    Attributes:
        loss: Name of the loss.
        gamma: Its γ; not used for FLSD-53.
        lam: Weight of the Brier score in focal calibration loss.
    """

    loss: InvertibleLoss
    gamma: float = 0.0
    lam: float = 0.0

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, get_args(InvertibleLoss))
        check_number("gamma", self.gamma, 0)
        check_number("lam", self.lam, 0)

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits (N, K, ...) of η, from those of q = softmax(logits), same dtype; -inf stays."""
        log_q = torch.log_softmax(logits.double(), dim=1).clamp(min=_LOWEST)
        match self.loss:
            case "focal":
                found = -_log_slope(log_q, _rest(log_q), self.gamma)
            case "focal_sample_dependent":
                gamma = 3 + 2 * (log_q < math.log(0.2)).to(log_q)
                found = -_log_slope(log_q, _rest(log_q), gamma)
            case "focal_calibration":
                found = _focal_calibration(log_q, self.gamma, self.lam)
            case "dual_focal":
                found = _dual_focal(log_q, self.gamma)
        return torch.where(logits.isneginf(), logits, found.to(logits.dtype))


def _rest(log_q: Tensor) -> Tensor:
    """1 - q, at least the precision of float64, so that powers of it are finite."""
    return (-log_q.expm1()).clamp(min=torch.finfo(torch.float64).eps)


def _log_slope(log_q: Tensor, rest: Tensor, gamma: float | Tensor) -> Tensor:
    """Log A with A = u^γ / q - γ u^(γ-1) ln q, the slope of -u^γ ln q in -q, for u = 1 - q + ..."""
    return (gamma - 1) * rest.log() - log_q + (rest - gamma * log_q.exp() * log_q).log()


def _focal_calibration(log_q: Tensor, gamma: float, lam: float) -> Tensor:
    """η_k (A_k + 2λ) = μ + 2λ q_k, with the μ for which the sum of η is 1."""
    q = log_q.exp()
    slopes = _log_slope(log_q, _rest(log_q), gamma).exp() + 2 * lam
    level = (1 - (2 * lam * q / slopes).sum(dim=1, keepdim=True)).clamp(min=0)
    level = level / (1 / slopes).sum(dim=1, keepdim=True)
    # Not (level + 2 λ q) / slopes, which may underflow for the least likely classes.
    return (level + 2 * lam * q).clamp(min=torch.finfo(q.dtype).tiny).log() - slopes.log()


def _dual_focal(log_q: Tensor, gamma: float) -> Tensor:
    """η_i A_i = 1 + η_(i-1) B_(i-1), from the largest q to the smallest.

    The loss of class i also has the next smaller q, with slope B_i = -γ u^(γ-1) ln q_i, where u is
    1 - q_i + q_(i+1). It is not smooth where two q are equal.
    """
    log_q, order = log_q.sort(dim=1, descending=True)
    following = torch.cat([log_q[:, 1:].exp(), torch.zeros_like(log_q[:, :1])], dim=1)
    rest = (_rest(log_q) + following).clamp(max=1)
    slopes = _log_slope(log_q, rest, gamma)
    onwards = (gamma * rest.pow(gamma - 1) * -log_q).clamp(min=torch.finfo(log_q.dtype).tiny).log()
    found = [-slopes[:, 0]]
    for place in range(1, log_q.shape[1]):
        before = found[-1] + onwards[:, place - 1]
        found.append(torch.logaddexp(before, torch.zeros_like(before)) - slopes[:, place])
    return torch.stack(found, dim=1).gather(1, order.argsort(dim=1))
