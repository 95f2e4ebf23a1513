"""Calibration by an affine map of logits: vector scaling and Dirichlet calibration."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from trainables.metrics._inputs import check_labels_possible, check_logits
from trainables.plugins.arguments import check_number
from trainables.posthoc.base import Fitted


class AffineMap(Fitted[tuple[Tensor, Tensor, *tuple[Any, ...]]]):
    """A method whose result begins with weights and offsets."""

    @property
    def weights(self) -> Tensor:
        """The factors or matrix, float64 (K,) or (K, K); RuntimeError before `fit`."""
        return self._result()[0]

    @property
    def offsets(self) -> Tensor:
        """The offsets b, float64 (K,); RuntimeError before `fit`."""
        return self._result()[1]


class VectorScaling(AffineMap):
    """Vector scaling: softmax(w_k z_k + b_k), a factor and an offset per class. Guo et al. 2017.

    Minimises the negative log-likelihood, which is convex, starting from w = 1 and b = 0.

    Args:
        regularisation: Weight, at least 0, of the mean over classes of (w_k - 1)^2 + b_k^2. The
            paper has no such penalty; the small default keeps factors finite on separable data.
    """

    name: ClassVar[str] = "vector"

    def __init__(self, regularisation: float = 1e-6) -> None:
        self.regularisation = check_number("regularisation", regularisation, 0)

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit factors and offsets; see :meth:`PostHoc.fit`."""
        logits, labels = check_logits(logits, labels)
        check_labels_possible(logits, labels)
        ruled_out = logits.isneginf()
        finite = logits.double().masked_fill(ruled_out, 0)

        def loss(parameters: Tensor) -> Tensor:
            weights, offsets = parameters[0], parameters[1]
            scaled = (finite * weights + offsets).masked_fill(ruled_out, -torch.inf)
            penalty = (weights - 1).square().mean() + offsets.square().mean()
            fit = torch.nn.functional.cross_entropy(scaled, labels)
            return fit + self.regularisation * penalty

        ones = finite.new_ones(logits.shape[1])
        weights, offsets = minimum(loss, torch.stack([ones, torch.zeros_like(ones)]))
        self._fitted = weights, offsets
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        """Scaled logits of the same shape and dtype, not probabilities."""
        weights, offsets = (t.to(logits) for t in self._result())
        # A masked class stays masked, even if its factor is not positive.
        return torch.where(logits.isneginf(), logits, logits * weights + offsets)


class DirichletCalibration(AffineMap):
    """Dirichlet calibration: softmax(W log p + b). Kull et al. 2019.

    It is the exact calibration map if p has a Dirichlet distribution given each class. Minimises
    the negative log-likelihood plus the ODIR penalty of the paper (section 3) on b and on the
    off-diagonal entries of W, starting from W = 1 and b = 0.

    Args:
        off_diagonal: Weight of the mean square of the K (K - 1) off-diagonal entries of W.
        intercept: Weight of the mean square of the K intercepts b. The paper selects both weights
            by cross-validation among powers of ten. Both are at least 0.
    """

    name: ClassVar[str] = "dirichlet"

    def __init__(self, off_diagonal: float = 0.01, intercept: float = 0.01) -> None:
        self.off_diagonal = check_number("off_diagonal", off_diagonal, 0)
        self.intercept = check_number("intercept", intercept, 0)

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit W and b; see :meth:`PostHoc.fit`. A label may be masked."""
        logits, labels = check_logits(logits, labels)
        log_probs = _log_probs(logits)
        num_classes = logits.shape[1]
        off = ~torch.eye(num_classes, dtype=torch.bool, device=logits.device)

        def loss(parameters: Tensor) -> Tensor:
            weights, offsets = parameters[:-1], parameters[-1]
            fit = torch.nn.functional.cross_entropy(log_probs @ weights.T + offsets, labels)
            penalty = self.off_diagonal * weights[off].square().mean()
            return fit + penalty + self.intercept * offsets.square().mean()

        start = torch.eye(num_classes + 1, num_classes, dtype=torch.float64, device=logits.device)
        found = minimum(loss, start)
        self._fitted = found[:-1], found[-1]
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits of the same shape and dtype, not probabilities."""
        weights, offsets = (t.to(logits.device) for t in self._result())
        return (_log_probs(logits) @ weights.T + offsets).to(logits.dtype)


def _log_probs(logits: Tensor) -> Tensor:
    """Float64 log-probabilities; probabilities are clamped to the smallest normal number."""
    lowest = float(np.log(np.finfo(np.float64).tiny))
    return torch.log_softmax(logits.double(), dim=1).clamp(min=lowest)


Limits = Sequence[tuple[float | None, float | None]] | None
"""The lowest and the highest value of each parameter; None for no limit."""


def minimum(loss: Callable[[Tensor], Tensor], start: Tensor, limits: Limits = None) -> Tensor:
    """Minimiser of a smooth convex function of float64 parameters, to the precision of float64."""

    def value_and_gradient(point: Tensor) -> tuple[Tensor, Tensor]:
        value = loss(point.requires_grad_())
        return value.detach(), torch.autograd.grad(value, point)[0]

    return minimum_by_gradient(value_and_gradient, start, 1000, limits, ftol=1e-14, gtol=1e-8)


def minimum_by_gradient(
    value_and_gradient: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    max_steps: int,
    limits: Limits = None,
    **options: float,
) -> Tensor:
    """The same (L-BFGS) for a function that returns its value, float64 (), and gradient.

    The options are those of SciPy.
    """
    from scipy.optimize import minimize  # slow to import

    def of_array(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.from_numpy(flat.copy()).to(start.device)
        value, gradient = value_and_gradient(point.view_as(start))
        return float(value), gradient.flatten().cpu().numpy()

    found = minimize(
        of_array,
        start.flatten().cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": max_steps, **options},
    )
    return torch.from_numpy(found.x.copy()).to(start.device).view_as(start)
