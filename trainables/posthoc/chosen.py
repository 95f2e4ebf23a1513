"""The scaling that is handed out: chosen on held-out predictions among simple and rich maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from trainables.contract.config import USUAL_SCALING, Criterion, ScalingWay
from trainables.metrics._inputs import check_logits, row_blocks
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.unseen import unseen_log_losses_of_logits
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc.crossfit import each_fold, random_folds
from trainables.posthoc.inverse_maps import InverseMap
from trainables.posthoc.scaling import FittedScaling, Scaling, ScalingName, in_blocks
from trainables.posthoc.structured import (
    BetaScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from trainables.posthoc.temperature import TemperatureScaling, row_derivatives
from trainables.runtime.threads import few_threads

_FITS: dict[str, type[StructuredVectorScaling | StructuredMatrixScaling | BetaScaling]] = {
    "vector": StructuredVectorScaling,
    "matrix": StructuredMatrixScaling,
    "beta": BetaScaling,
}
_MAX_MATRIX_WORK = 5e8  # N · K²: about a second per step beyond it
_NUM_FOLDS = 5
ENOUGH_ERRORS = 50
"""With fewer, a few samples decide which mean log loss is lower."""
_SCORE_QUANTILE = 2.24  # of a normal distribution, two-sided 2.5 %


@dataclass(frozen=True)
class Candidate:
    """A map of logits, after the inverse map of the loss or without it."""

    name: ScalingName
    inverse: InverseMap | None = None


def candidates(
    num_samples: int, num_classes: int, inverse: InverseMap | None = None
) -> tuple[Candidate, ...]:
    """The maps worth fitting, from simple to rich; each also after an inverse map.

    Fewer samples than classes cannot determine a matrix: the penalties keep it at the identity.
    """
    names: list[ScalingName] = ["none", "temperature", "vector"]
    if num_classes == 2:
        names.append("beta")
    if num_classes <= num_samples and num_samples * num_classes**2 <= _MAX_MATRIX_WORK:
        names.append("matrix")
    before = (None,) if inverse is None else (None, inverse)
    return tuple(Candidate(name, each) for name in names for each in before)


def cross_fitted_scaling(
    candidate: Candidate, logits: Tensor, labels: Tensor, clusters: Tensor | None = None
) -> Tensor:
    """Logits (N, K) of each half of the samples, by this map fitted on the other half."""
    logits, labels = check_logits(logits, labels)
    return _crossed((candidate,), logits, labels, _folds(labels, clusters, 2))[candidate]


def _folds(labels: Tensor, clusters: Tensor | None, most: int = _NUM_FOLDS) -> Tensor:
    """The fold of each row (N,), on the device of the labels."""
    units = len(labels if clusters is None else set(clusters.tolist()))
    return random_folds(len(labels), min(most, units), clusters=clusters).to(labels.device)


def _crossed(
    maps: Sequence[Candidate],
    logits: Tensor,
    labels: Tensor,
    folds: Tensor,
    criterion: Criterion = "nll",
) -> dict[Candidate, Tensor]:
    """Logits (N, K) of each fold, by these maps fitted on the others."""
    crossed = {each: torch.empty_like(logits) for each in maps}
    for part in each_fold(folds):
        for each, scaling in fitted(maps, logits[~part], labels[~part], criterion).items():
            crossed[each][part] = in_blocks(scaling, logits[part])
    return crossed


def fitted(
    maps: Sequence[Candidate], logits: Tensor, labels: Tensor, criterion: Criterion = "nll"
) -> dict[Candidate, Scaling]:
    """Each of these candidates, fitted on all samples."""
    found = {}
    with few_threads(logits.numel()):
        for inverse in dict.fromkeys(each.inverse for each in maps):
            mapped = logits if inverse is None else inverse(logits)
            scaler = TemperatureScaling(criterion).fit(mapped, labels)
            for each in maps:
                if each.inverse == inverse:
                    found[each] = _fitted(each, mapped, labels, scaler)
    return {each: found[each] for each in maps}


def _fitted(
    candidate: Candidate, logits: Tensor, labels: Tensor, scaler: TemperatureScaling
) -> Scaling:
    name, inverse = candidate.name, candidate.inverse
    match name:
        case "none":
            return Scaling(name, inverse=inverse)
        case "temperature":
            return Scaling(name, scaler.temperature, inverse=inverse)
        case _:
            return _FITS[name]().fit(logits, labels, scaler).scaling.after(inverse)


def simplest_good(
    losses: Mapping[Candidate, Tensor], clusters: Clusters | None = None
) -> Candidate:
    """The simplest candidate whose mean loss is within one standard error from the lowest.

    The error is that of the paired difference. `losses` (N,) are cross-fitted, of simple candidates
    first.
    """
    lowest = min(losses, key=lambda each: float(losses[each].mean()))
    return next(e for e in losses if not exceeds_error(losses[e] - losses[lowest], clusters))


def exceeds_error(difference: Tensor, clusters: Clusters | None) -> bool:
    """Whether the mean of differences (N,) is above one standard error."""
    if clusters is not None:
        difference = torch.from_numpy(clusters.pseudo_values(difference.cpu().numpy()))
    error = float(difference.std()) / len(difference) ** 0.5
    return bool(difference.mean() > error)


def needs_temperature(logits: Tensor, labels: Tensor, clusters: Clusters | None = None) -> bool:
    """Whether T = 1 is refuted: the score test of the temperature, false in at most 2.5 %.

    If the probabilities p are calibrated, the expected logit minus the logit of the label has mean
    0 and variance Var_p(z). This variance holds with few errors too, where the sample's is
    unreliable. With clusters, the variance between them counts if it is larger.
    """
    blocks = [row_derivatives(z, y) for z, y in row_blocks(logits.double(), labels)]
    gap, spread = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    variance = float(spread.mean()) / len(gap)
    if clusters is not None and len(clusters) > 1:
        values = clusters.pseudo_values(gap.cpu().numpy())
        variance = max(variance, float(values.var(ddof=1)) / len(values))
    return bool(gap.mean().abs() > _SCORE_QUANTILE * variance**0.5)


def _is_gain(
    best: Candidate,
    unscaled: Candidate,
    losses: Mapping[Candidate, Tensor],
    logits: Mapping[Candidate, Tensor],
    clusters: Clusters | None,
) -> bool:
    """Whether a map lowers the NLL, also if the samples show too few errors.

    Without errors, the map to certainty has the lowest loss.
    """
    from trainables.metrics.inference.influence import mean_interval  # imports SciPy

    gains = losses[unscaled] - losses[best]
    of_error = [unseen_log_losses_of_logits(logits[each])[1] for each in (unscaled, best)]
    unseen = of_error[0] - of_error[1], float(gains.max())
    return mean_interval(gains, 0.95, clusters, unseen)[0] > 0


@dataclass(frozen=True)
class Choice:
    """Which map to use for predictions, and what it is compared with.

    Attributes:
        candidate: What is shown to be needed, such as none.
        handed_out: What to use for a network: a temperature in place of none. It cannot be shown to
            be needed, but is never much worse, and where confidence is slightly off it is better
            (``python -m benchmarks.handed_out``). None only if no sample is wrong.
        losses: The cross-fitted log loss (N,) of each candidate.
        logits: The cross-fitted logits (N, K) of each.
    """

    candidate: Candidate
    handed_out: Candidate
    losses: Mapping[Candidate, Tensor]
    logits: Mapping[Candidate, Tensor]


def choose(
    logits: Tensor,
    labels: Tensor,
    clusters: Tensor | None = None,
    inverse: InverseMap | None = None,
) -> Choice:
    """Choose a map by the cross-fitted log losses of held-out predictions.

    A temperature, unless a richer map is better by more than one standard error, or nothing needs
    to be scaled. For calibrated predictions, at most 5 % of choices are others than none
    (``python -m benchmarks.recommendation``). With fewer than 50 errors, a richer map must also be
    shown to be better than none.

    Args:
        logits: Shape (N, K), floats, finite, or -inf for masked classes.
        labels: True classes, shape (N,), integers.
        clusters: The cluster of each row, (N,); rows of one are in one fold, and clusters are the
            unit of standard errors.
        inverse: The inverse map of the loss, as a candidate before each of the others.

    Raises:
        TypeError: See :meth:`PostHoc.fit`.
        ValueError: See :meth:`PostHoc.fit`; or there are fewer than two samples or clusters.
    """
    logits, labels = check_logits(logits, labels)
    maps = candidates(len(logits), logits.shape[1], inverse)
    crossed = _crossed(maps, logits, labels, _folds(labels, clusters))
    losses = {each: log_losses_of_logits(found, labels) for each, found in crossed.items()}
    units = clusters_of(clusters, len(labels))
    best = simplest_good({e: found for e, found in losses.items() if e.name != "none"}, units)
    unscaled = Candidate("none", best.inverse)
    temperature, errors = Candidate("temperature", best.inverse), num_errors(logits, labels)
    few = errors < ENOUGH_ERRORS
    if best != temperature and few and not _is_gain(best, unscaled, losses, crossed, units):
        best = temperature
    handed_out = best if errors else unscaled
    if best == temperature and not needs_temperature(crossed[unscaled], labels, units):
        best = unscaled
    return Choice(best, handed_out, losses, crossed)


def num_errors(logits: Tensor, labels: Tensor) -> int:
    """Number of samples whose most likely class is not the label."""
    return int((logits.argmax(dim=1) != labels).sum())


def fit_scaling(
    logits: Tensor,
    labels: Tensor,
    way: ScalingWay = USUAL_SCALING,
    clusters: Tensor | None = None,
    inverse: InverseMap | None = None,
) -> tuple[Scaling, Tensor]:
    """The scaling of a trained network, and its cross-fitted logits (N, K).

    `way` names the map, or has it chosen; the other arguments and errors are those of `choose`. A
    named map is not preceded by the inverse map.
    """
    logits, labels = check_logits(logits, labels)
    if way.name == "auto":
        choice = choose(logits, labels, clusters, inverse)
        best, crossed = choice.handed_out, choice.logits[choice.handed_out]
    else:
        best = Candidate(way.name)
        folds = _folds(labels, clusters)
        crossed = _crossed((best,), logits, labels, folds, way.criterion)[best]
    return fitted((best,), logits, labels, way.criterion)[best], crossed


class SelectedScaling(FittedScaling):
    """The map that `choose` hands out, fitted on all samples."""

    name: ClassVar[str] = "selected"

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Choose and fit a map; see :meth:`PostHoc.fit`."""
        self._fitted, _ = fit_scaling(logits, labels)
        return self
