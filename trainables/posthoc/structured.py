"""Structured scaling, regularised towards temperature scaling, and beta calibration."""

from typing import ClassVar, Self, cast

import torch
from torch import Tensor

from trainables.metrics._inputs import check_logits, row_blocks
from trainables.plugins.arguments import check_number
from trainables.posthoc.affine import minimum, minimum_by_gradient
from trainables.posthoc.scaling import (
    FittedScaling,
    Scaling,
    ScalingName,
    in_blocks,
    mixed_log_probs,
)
from trainables.posthoc.temperature import TemperatureScaling

_MAX_STEPS = 200
_PRECISION = 1e-12  # of the mean


class _Affine(FittedScaling):
    """A method whose result is an affine map of log-probabilities."""

    @property
    def weights(self) -> Tensor:
        """The factors or matrix, float64 (K,) or (K, K); RuntimeError before `fit`."""
        return cast(Tensor, self.scaling.weights)

    @property
    def offsets(self) -> Tensor:
        """The offsets b, float64 (K,); RuntimeError before `fit`."""
        return cast(Tensor, self.scaling.offsets)


class _StructuredScaling(_Affine):
    """softmax(W z + b) with z = log p, where W is regularised towards 1 and b towards 0.

    p is softmax(logits / T), mixed with the uniform distribution with weight 1 / (N + 1) to avoid
    extreme log-probabilities. T is fitted first, then W and b, by minimising the mean negative
    log-likelihood plus ridge penalties, a convex problem. The weight of a penalty is the number of
    its parameters divided by N: K / N for the diagonal entries and for the offsets, K (K - 1) / N
    for the off-diagonal entries. So there are no hyperparameters. Berta et al. 2025, "Structured
    matrix scaling for multi-class calibration", as implemented in their library `probmetrics`.
    Computed in the dtype of the logits, with sums in float64.
    """

    name: ClassVar[str]
    is_full: ClassVar[bool]

    def fit(
        self, logits: Tensor, labels: Tensor, temperature: TemperatureScaling | None = None
    ) -> Self:
        """Fit W, b and T (unless given, fitted on the same data); see :meth:`PostHoc.fit`."""
        logits, labels = check_logits(logits, labels)
        scaler = temperature or TemperatureScaling().fit(logits, labels)
        num_samples, num_classes = logits.shape
        penalty = torch.full((num_classes, num_classes), num_classes * (num_classes - 1.0))
        penalty.fill_diagonal_(num_classes)
        if not self.is_full:
            penalty = penalty.diagonal()
        penalty = penalty.to(logits.device, torch.float64) / num_samples
        share = 1 / (num_samples + 1)
        scores = in_blocks(lambda z: mixed_log_probs(scaler(z), share), logits)
        weights, offsets = _minimum(scores, labels, penalty, num_classes / num_samples)
        name: ScalingName = "matrix" if self.is_full else "vector"
        self._fitted = Scaling(name, scaler.temperature, weights, offsets, share)
        return self


class StructuredVectorScaling(_StructuredScaling):
    """A temperature plus a factor and an offset per class, regularised towards 1 and 0."""

    name: ClassVar[str] = "structured_vector"
    is_full = False


class StructuredMatrixScaling(_StructuredScaling):
    """A temperature plus a matrix and an offset per class, regularised towards 1 and 0.

    The off-diagonal entries model pairs of classes that are confused in one direction.
    """

    name: ClassVar[str] = "structured_matrix"
    is_full = True


class BetaScaling(_Affine):
    """Beta calibration of two classes: log p times factors of at least 0, and an offset.

    Kull et al. 2017: the log odds are a ln p_1 - b ln p_0 + c, exact if p has a beta distribution
    given each class. p is as in structured scaling, after a temperature.

    Args:
        regularisation: Weight, at least 0, of (a - 1)² + (b - 1)² + c²; the paper has no penalty,
            and the small default keeps them finite on separable data.
    """

    name: ClassVar[str] = "beta"

    def __init__(self, regularisation: float = 1e-6) -> None:
        self.regularisation = check_number("regularisation", regularisation, 0)

    def fit(
        self, logits: Tensor, labels: Tensor, temperature: TemperatureScaling | None = None
    ) -> Self:
        """Fit a, b, c and T (unless given); see :meth:`PostHoc.fit`. K must be 2."""
        logits, labels = check_logits(logits, labels)
        if logits.shape[1] != 2:
            raise ValueError(f"beta calibration is for 2 classes, got {logits.shape[1]}")
        scaler = temperature or TemperatureScaling().fit(logits, labels)
        share = 1 / (len(labels) + 1)
        scores = mixed_log_probs(scaler(logits).double(), share)
        start = scores.new_tensor([1.0, 1.0, 0.0])  # b, a, c

        def loss(point: Tensor) -> Tensor:
            scaled = scores * point[:2] + torch.stack([point[2] * 0, point[2]])
            fit = torch.nn.functional.cross_entropy(scaled, labels)
            return fit + self.regularisation * (point - start).square().sum()

        found = minimum(loss, start, limits=[(0, None), (0, None), (None, None)])
        offsets = found[2] * found.new_tensor([0, 1])
        self._fitted = Scaling("beta", scaler.temperature, found[:2], offsets, share)
        return self


def _minimum(
    scores: Tensor, labels: Tensor, penalty: Tensor, intercept_penalty: float
) -> tuple[Tensor, Tensor]:
    """Weights and offsets, float64, that minimise the penalised negative log-likelihood (L-BFGS).

    The weights have the shape of `penalty`: (K,) for a diagonal, (K, K) for a matrix. The
    parameters are (K, D): the changes of a class's weights, and its offset.
    """
    num_samples, num_classes = scores.shape
    full = penalty.dim() == 2
    columns = penalty if full else penalty[:, None]
    penalties = torch.nn.functional.pad(columns, (0, 1), value=intercept_penalty)
    one = torch.eye(num_classes).to(penalty) if full else torch.ones_like(columns)
    to_change = (_matrix_scales if full else _vector_scales)(scores, penalties)

    def value_and_gradient(point: Tensor) -> tuple[Tensor, Tensor]:
        change = _times(point, to_change)
        weights, offsets = (one + change[:, :-1]).to(scores), change[:, -1].to(scores)
        value, gradient = (penalties * change**2).sum(), 2 * penalties * change
        for z, y in row_blocks(scores, labels):
            scaled = (z @ weights.T if full else z * weights[:, 0]).add_(offsets)
            own = y[:, None]
            log_total = scaled.logsumexp(dim=1, keepdim=True)
            value += (log_total - scaled.gather(1, own)).double().sum() / num_samples
            residuals = scaled.sub_(log_total).exp_()  # probabilities, less 1 for the label
            residuals.scatter_add_(1, own, residuals.new_full(own.shape, -1))
            slopes = residuals.T @ z if full else (z.mul(residuals)).sum(dim=0)[:, None]
            gradient[:, :-1] += slopes.double() / num_samples
            gradient[:, -1] += residuals.sum(dim=0).double() / num_samples
        return value, _times(gradient, to_change.mT)

    # Steps below the rounding of the mean cost many evaluations and gain nothing.
    precision = max(torch.finfo(scores.dtype).eps / 3, _PRECISION)
    start = torch.zeros_like(penalties)
    found = minimum_by_gradient(value_and_gradient, start, _MAX_STEPS, ftol=precision, gtol=1e-7)
    change = _times(found, to_change)
    weights = one + change[:, :-1]
    return weights if full else weights[:, 0], change[:, -1]


def _times(rows: Tensor, matrices: Tensor) -> Tensor:
    """Each row of (K, D) times its own matrix (K, D, D), or the one of all (D, D)."""
    return (rows[:, None] @ matrices)[:, 0]


def _vector_scales(scores: Tensor, penalties: Tensor) -> Tensor:
    """Per class, (K, 2, 2): a change of variables after which the curvature is about 1."""
    moments = penalties.new_zeros(3, len(penalties))
    for (z,) in row_blocks(scores):
        probs = z.exp()
        spread = probs.sub_(probs.square())
        first = spread * z
        sums = first.mul(z).sum(dim=0), first.sum(dim=0), spread.sum(dim=0)
        moments += torch.stack(sums).double() / len(scores)
    square, first, spread = moments
    curvature = torch.stack([square, first, first, spread], dim=1).view(-1, 2, 2)
    return _whitening(curvature + torch.diag_embed(2 * penalties))


def _matrix_scales(scores: Tensor, penalties: Tensor) -> Tensor:
    """The same for a matrix, (K + 1, K + 1): an approximation that all classes share."""
    num_classes = len(penalties)
    moments = penalties.new_zeros(num_classes + 1, num_classes + 1)
    for (z,) in row_blocks(scores):
        ones = torch.nn.functional.pad(z, (0, 1), value=1.0)
        moments += (ones.T @ ones).double() / len(scores)
    return _whitening(moments / num_classes + 2 * penalties.mean(dim=0).diag())


def _whitening(curvature: Tensor) -> Tensor:
    """R (..., D, D) with R C R' = 1, of positive definite C."""
    factor = torch.linalg.cholesky(curvature)
    one = torch.eye(factor.shape[-1]).to(factor)
    inverse: Tensor = torch.linalg.solve_triangular(factor, one, upper=False)
    return inverse
