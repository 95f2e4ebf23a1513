"""Accuracy versus uncertainty calibration: correct predictions certain, errors uncertain."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import CalibrationLoss, Extra
from trainables.losses.ecp import entropy_of
from trainables.plugins.arguments import Range

_LEAST: Final = 1e-10  # of sums, as in the authors' code


@dataclass(eq=False, repr=False)
class AccuracyVersusUncertainty(CalibrationLoss):
    """Cross-entropy + λ · accuracy versus uncertainty calibration (AvUC) of the batch.

    c is the confidence and u the entropy of p. Samples are accurate (A) or inaccurate (I), and
    certain (C) if u is at most the threshold, else uncertain (U). With the weight c for accurate
    and 1−c for inaccurate samples, n_AC and n_IC are sums of (1−tanh u), n_AU and n_IU of tanh u.
    Gradients flow through c and u. The authors train a Bayesian network with it; here u is the
    entropy of one network's prediction.

    Args:
        lam: Weight λ of the term.
        threshold: Entropy in nats above which a prediction is uncertain; 1 in the authors' code.
    """

    source: ClassVar[str] = "Krishnan and Tickoo 2020, eq. 3"
    formula: ClassVar[str] = "−log p_y + λ log(1 + (n_AU+n_IC) / (n_AC+n_IU))"

    lam: Annotated[float, Range(0, 1000)] = 3.0
    threshold: Annotated[float, Range(0, 100)] = 1.0

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        log_probs = logits.log_softmax(1)
        log_confidence, predicted = log_probs.max(1)
        confidence, entropy = log_confidence.exp(), entropy_of(log_probs)
        accurate = predicted == targets
        uncertain = entropy > self.threshold
        weight = torch.where(accurate, confidence, -log_confidence.expm1())
        term = weight * torch.where(uncertain, entropy.tanh(), 1 - entropy.tanh())
        good = torch.where(accurate != uncertain, term, 0).sum()
        penalty = ((term.sum() + _LEAST) / (good + _LEAST)).log()
        return F.nll_loss(log_probs, targets) + self.lam * penalty


@dataclass(eq=False, repr=False)
class SoftAccuracyVersusUncertainty(CalibrationLoss):
    """Cross-entropy + λ · soft accuracy versus uncertainty calibration (S-AvUC) of the batch.

    Like :class:`AccuracyVersusUncertainty`, but a prediction is uncertain to the degree t instead
    of entirely or not at all, and c is no weight: n_AU and n_IU are sums of t tanh u over accurate
    and inaccurate samples, n_AC and n_IC of (1−t)(1−tanh u).

    Args:
        lam: Weight λ of the term.
        kappa: Entropy, as a share of its maximum log K, for which t is ½.
        temperature: Temperature τ of t; the degree becomes 0 or 1 as it approaches 0.
    """

    source: ClassVar[str] = "Karandikar et al. 2021, eq. 15"
    formula: ClassVar[str] = (
        "−log p_y + λ log(1 + (n_AU+n_IC) / (n_AC+n_IU)), "
        "t = σ(log(v(1−κ)/((1−v)κ))/τ), v = u/log K"
    )

    lam: Annotated[float, Range(0, 1000)] = 1.0
    kappa: Annotated[float, Range(1e-3, 1 - 1e-3)] = 0.5
    temperature: Annotated[float, Range(1e-3, 1000)] = 1.0

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        log_probs = logits.log_softmax(1)
        entropy = entropy_of(log_probs)
        epsilon = torch.finfo(logits.dtype).eps
        share = (entropy / math.log(self.num_classes)).clamp(epsilon, 1 - epsilon)
        odds = share.logit() - math.log(self.kappa / (1 - self.kappa))
        degree = (odds / self.temperature).sigmoid()
        accurate = log_probs.argmax(1) == targets
        uncertain, certain = degree * entropy.tanh(), (1 - degree) * (1 - entropy.tanh())
        good = torch.where(accurate, certain, uncertain).sum()
        bad = torch.where(accurate, uncertain, certain).sum()
        penalty = ((good + bad + _LEAST) / (good + _LEAST)).log()
        return F.nll_loss(log_probs, targets) + self.lam * penalty
