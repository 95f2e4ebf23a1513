"""Temperature scaling (Guo et al. 2017)."""

import math
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from trainables.metrics._inputs import check_labels_possible, check_logits, row_blocks
from trainables.metrics._ranked import upper_edges
from trainables.plugins.arguments import check_choice
from trainables.posthoc.base import Fitted

Criterion = Literal["nll", "nll_unpenalised", "ece_grid", "ece"]

_LOWEST, _HIGHEST = 0.05, 100.0
_GRID = np.arange(1, 101) / 10
_NUM_BINS = 15
_PRECISION = 1 / 0.5**2  # of the prior of ln T
_NEWTON_STEPS = 12  # it usually takes five or six
_TOLERANCE = 1e-10  # relative tolerance of T
_MANY = 2**20  # logits
_RULED_OUT = -1e15  # its square is finite


class TemperatureScaling(Fitted[tuple[float, bool]]):
    """Temperature scaling: softmax(z / T) with one T, fitted on held-out data. Guo et al. 2017.

    Args:
        criterion: "nll" minimises the negative log-likelihood over T in [0.05, 100], under a prior
            ln T ~ N(0, 0.5²): a few hundred samples with few errors do not determine T, and a pure
            fit may then harm; with thousands of samples, the prior changes nothing.
            "nll_unpenalised" is the fit of Guo et al. without the prior. "ece_grid", or "ece",
            selects the first T of 0.1, 0.2, ..., 10 with the lowest ECE (15 equal-width bins), as
            in the code of Mukhoti et al. 2020.
        probabilities_as_logits: Fit also to logits that look like probabilities: all in [0, 1], and
            each row sums to one. By default `fit` refuses them.

    Raises:
        ValueError: If `criterion` is none of these.
    """

    name: ClassVar[str] = "temperature"

    def __init__(
        self, criterion: Criterion = "nll", *, probabilities_as_logits: bool = False
    ) -> None:
        check_choice("criterion", criterion, get_args(Criterion))
        self.criterion = criterion
        self.probabilities_as_logits = probabilities_as_logits

    @property
    def temperature(self) -> float:
        """The fitted T; RuntimeError before `fit`."""
        return self._result()[0]

    @property
    def at_bound(self) -> bool:
        """Whether T is at an end of its range, so the data do not determine it.

        Predictions that are all correct drive T down; accuracy near chance level drives it up.
        """
        return self._result()[1]

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit the temperature; see :meth:`PostHoc.fit`."""
        logits, labels = check_logits(
            logits, labels, probabilities_as_logits=self.probabilities_as_logits
        )
        check_labels_possible(logits, labels)
        if self.criterion in ("ece", "ece_grid"):
            self._fitted = _ece_temperature(logits, labels)
        else:
            precision = _PRECISION if self.criterion == "nll" else 0.0
            self._fitted = _nll_temperature(logits, labels, precision)
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits divided by T, same shape and dtype (not probabilities)."""
        return logits / self.temperature


def _nll_temperature(logits: Tensor, labels: Tensor, precision: float) -> tuple[float, bool]:
    """T by Newton's method in 1/T, or by bracketing if that leaves the range or is slow."""
    inverse = _start(logits, labels, precision)
    tolerance = max(_TOLERANCE, torch.finfo(logits.dtype).eps)
    for _ in range(_NEWTON_STEPS):
        slope, curvature = _derivatives(logits, labels, inverse, precision)
        step = slope / curvature if curvature > 0 else math.inf
        if not 1 / _HIGHEST < inverse - step < 1 / _LOWEST:
            break
        inverse -= step
        if abs(step) <= tolerance * inverse:
            return 1 / inverse, False
    return _bracketed_temperature(logits, labels, precision)


def _start(logits: Tensor, labels: Tensor, precision: float) -> float:
    """Where the search for 1/T starts: of many logits, at the result of an eighth of the rows."""
    if logits.numel() <= _MANY:
        return 1.0
    temperature, at_bound = _nll_temperature(logits[::8], labels[::8], precision)
    return 1.0 if at_bound else 1 / temperature


def _bracketed_temperature(logits: Tensor, labels: Tensor, precision: float) -> tuple[float, bool]:
    from scipy.optimize import brentq  # slow to import

    def slope(log_temperature: float) -> float:
        return _derivatives(logits, labels, math.exp(-log_temperature), precision)[0]

    low, high = math.log(_LOWEST), math.log(_HIGHEST)
    at_low, at_high = slope(low), slope(high)
    if at_low == at_high == 0:  # constant logits: all temperatures are equivalent
        return 1.0, False
    if at_low <= 0:
        return _LOWEST, True
    if at_high >= 0:
        return _HIGHEST, True
    return math.exp(brentq(slope, low, high, xtol=_TOLERANCE)), False


def _derivatives(
    logits: Tensor, labels: Tensor, inverse: float, precision: float
) -> tuple[float, float]:
    """First and second derivative of the NLL less the log prior per sample, with respect to 1/T."""
    totals = logits.new_zeros(2, dtype=torch.float64)
    for z, y in row_blocks(logits, labels):
        totals += torch.stack([each.sum() for each in row_derivatives(z, y, inverse)])
    slope, curvature = (totals / len(labels)).tolist()
    weight, log_inverse = precision / len(labels), math.log(inverse)
    return (
        slope + weight * log_inverse / inverse,
        curvature + weight * (1 - log_inverse) / inverse**2,
    )


def row_derivatives(logits: Tensor, labels: Tensor, inverse: float = 1.0) -> tuple[Tensor, Tensor]:
    """First and second derivative of each row's log loss with respect to 1/T, float64 (N,).

    They are the expected logit minus that of the label, and the variance of the logits.
    """
    # Relative to the largest logit, so nearly certain predictions keep their precision.
    centred = logits - logits.amax(dim=1, keepdim=True)
    own = centred.gather(1, labels[:, None])[:, 0].double()
    probs = torch.softmax(centred * inverse, dim=1)
    centred.clamp_(min=_RULED_OUT)  # -inf times a probability of 0 is nan
    first = probs.mul_(centred)
    expected = first.sum(dim=1).double()
    return expected - own, first.mul_(centred).sum(dim=1).double() - expected**2


def _ece_temperature(logits: Tensor, labels: Tensor) -> tuple[float, bool]:
    sums = logits.new_zeros(len(_GRID), _NUM_BINS, dtype=torch.float64)
    edges = upper_edges(logits, _NUM_BINS)
    for z, y in row_blocks(logits, labels):
        top, predicted = z.max(dim=1, keepdim=True)
        centred = z - top
        # The arg max does not change with T, and the largest probability is 1 / sum exp(...).
        confidence = torch.stack([1 / (centred / t).exp().sum(dim=1) for t in _GRID.tolist()])
        gaps = confidence.double() - (predicted[:, 0] == y).double()
        sums.scatter_add_(1, torch.searchsorted(edges, confidence), gaps)
    errors = (sums.abs().sum(dim=1) / len(labels)).cpu().numpy()
    best = int(np.argmin(errors))
    return float(_GRID[best]), best in (0, len(_GRID) - 1)
