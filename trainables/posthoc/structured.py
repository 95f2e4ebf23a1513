"""Structured scaling: vector and matrix scaling, regularised towards temperature scaling."""

from typing import ClassVar, Self

import torch
from torch import Tensor

from trainables.metrics._inputs import check_logits, row_blocks
from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc.affine import AffineMap, minimum_by_gradient
from trainables.posthoc.base import Fitted, PostHoc
from trainables.posthoc.crossfit import each_fold, random_folds
from trainables.posthoc.temperature import TemperatureScaling

_MAX_STEPS = 200
_MAX_MATRIX_WORK = 5e8  # N · K²: about a second per step beyond it
_PRECISION = 1e-12  # of the mean
_STANDARD_ERRORS = 2.0
NUM_FOLDS = 5


class _StructuredScaling(AffineMap):
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
        scores = torch.empty_like(logits)
        for z, out in row_blocks(logits, scores):
            out.copy_(_log_probs(scaler(z), num_samples))
        found = _minimum(scores, labels, penalty, num_classes / num_samples)
        self._fitted = *found, scaler, num_samples
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits of the same shape and dtype, not probabilities."""
        weights, offsets, scaler, num_samples = self._result()
        scaled = torch.empty_like(logits)
        for z, out in row_blocks(logits, scaled):
            enough = z if z.dtype == torch.float64 else z.float()
            scores = _log_probs(scaler(enough), num_samples)
            out.copy_(self._apply(scores, weights.to(scores), offsets.to(scores)))
            out.masked_fill_(z.isneginf(), -torch.inf)  # masked classes stay masked
        return scaled

    def _apply(self, scores: Tensor, weights: Tensor, offsets: Tensor) -> Tensor:
        return (scores @ weights.T if self.is_full else scores * weights) + offsets


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


class SelectedScaling(Fitted[PostHoc]):
    """Temperature scaling, or structured scaling if it is clearly better.

    The methods are compared by their cross-fitted negative log-likelihood on the same samples. From
    simple to complex, a method replaces its predecessor if its mean is lower by more than two
    standard errors of the paired difference. The selected method is then fitted on all samples.
    With few samples per class, this is temperature scaling. Matrix scaling is considered only if N
    is at least K and N · K² at most 5e8.
    """

    name: ClassVar[str] = "selected"

    @property
    def selected(self) -> PostHoc:
        """The fitted method; RuntimeError before `fit`."""
        return self._result()

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Select and fit a method; see :meth:`PostHoc.fit`."""
        logits, labels = check_logits(logits, labels)
        crossed = cross_fitted_scalings(logits, labels)
        losses = {make: log_losses_of_logits(each, labels) for make, each in crossed.items()}
        self._fitted = simplest_good(losses)().fit(logits, labels)
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits of the same shape and dtype, not probabilities."""
        return self.selected(logits)


def scalings(logits: Tensor) -> tuple[type[PostHoc], ...]:
    """The methods that are worth fitting on logits (N, K), from simple to complex.

    Fewer samples than classes cannot determine a matrix: the penalties keep it at the identity.
    """
    num_samples, num_classes = logits.shape
    found: tuple[type[PostHoc], ...] = (TemperatureScaling, StructuredVectorScaling)
    feasible = num_classes <= num_samples and num_samples * num_classes**2 <= _MAX_MATRIX_WORK
    return (*found, StructuredMatrixScaling) if feasible else found


def cross_fitted_scalings(
    logits: Tensor, labels: Tensor, clusters: Tensor | None = None
) -> dict[type[PostHoc], Tensor]:
    """Cross-fitted logits (N, K) of each of :func:`scalings`, whose temperatures are shared.

    See :func:`~trainables.posthoc.crossfit.cross_fitted`.
    """
    crossed = {make: torch.empty_like(logits) for make in scalings(logits)}
    units = len(labels if clusters is None else set(clusters.tolist()))
    folds = random_folds(len(labels), min(NUM_FOLDS, units), clusters=clusters)
    for part in each_fold(folds.to(labels.device)):
        fitted_on, own, scaled = logits[~part], labels[~part], logits[part]
        temperature = TemperatureScaling().fit(fitted_on, own)
        for make, found in crossed.items():
            if issubclass(make, _StructuredScaling):
                found[part] = make().fit(fitted_on, own, temperature)(scaled)
            else:
                found[part] = temperature(scaled)
    return crossed


def simplest_good(
    losses: dict[type[PostHoc], Tensor], clusters: Clusters | None = None
) -> type[PostHoc]:
    """The method that :class:`SelectedScaling` selects, from losses (N,), simple methods first."""
    (best, lowest), *others = losses.items()
    for make, theirs in others:
        difference = theirs - lowest
        if clusters is not None:
            difference = torch.from_numpy(clusters.pseudo_values(difference.cpu().numpy()))
        error = float(difference.std()) / len(difference) ** 0.5
        if float(difference.mean()) < -_STANDARD_ERRORS * error:
            best, lowest = make, theirs
    return best


def _log_probs(logits: Tensor, num_samples: int) -> Tensor:
    """Log-probabilities after mixing with the uniform distribution, weight 1 / (N + 1)."""
    share = 1 / (num_samples + 1)
    probs = torch.softmax(logits, dim=1)
    return probs.mul_(1 - share).add_(share / logits.shape[1]).log_()


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
