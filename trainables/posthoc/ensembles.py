"""Ensembles of trained networks, by greedy selection on held-out predictions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.contract.config import USUAL_SCALING, ScalingWay
from trainables.metrics._inputs import check_logits
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc.chosen import fit_scaling
from trainables.posthoc.crossfit import each_fold, random_folds
from trainables.posthoc.scaling import Scaling, in_blocks
from trainables.posthoc.temperature import TemperatureScaling

LEAST_NETWORKS = 3  # different ones; the best two of many are often lucky on few samples
_POOL = 20  # number of candidates: the networks with the lowest individual losses


@dataclass(frozen=True)
class Ensemble:
    """The mean of the members' temperature-scaled probabilities, itself scaled.

    Attributes:
        members: Indices of the networks, ascending.
        temperatures: Temperature of each member, by which its logits are divided.
        scaling: The map of the logarithm of the mean, chosen as for a single network.
    """

    members: tuple[int, ...]
    temperatures: tuple[float, ...]
    scaling: Scaling

    def __call__(self, logits: Sequence[Tensor] | Mapping[int, Tensor]) -> Tensor:
        """Calibrated logits (N, K) of the ensemble, from the logits (N, K) of its members."""
        return in_blocks(self.scaling, self.mean(logits))

    def mean(self, logits: Sequence[Tensor] | Mapping[int, Tensor]) -> Tensor:
        """The same before the scaling of the mean."""
        own = [
            logits[index] / temperature
            for index, temperature in zip(self.members, self.temperatures, strict=True)
        ]
        return averaged(own)


def averaged(logits: Sequence[Tensor]) -> Tensor:
    """Logarithm of the mean probabilities, (N, K, ...), from logits (N, K, ...) of each network."""
    logs = torch.stack([torch.log_softmax(each, dim=1) for each in logits])
    return torch.logsumexp(logs, dim=0) - math.log(len(logits))


def fit_ensemble(
    logits: Sequence[Tensor],
    labels: Tensor,
    clusters: Tensor | None = None,
    most: int = 5,
    way: ScalingWay = USUAL_SCALING,
) -> Ensemble:
    """Greedy selection among trained networks (Caruana et al. 2004), of different ones.

    First, a temperature is fitted to each network. The best network is the first member. Each step
    adds the network with which the negative log-likelihood of the mean probabilities is lowest. It
    stops at `most` members, or where the loss rises by more than two of its standard errors: with
    few samples the loss hardly shows whether a further network helps, and on new samples it nearly
    always does. The candidates are the 20 best networks whose temperature is inside its range. The
    mean is scaled at the end, as `way` says. No scaling is fitted during selection: with few
    samples, that would reward overconfident ensembles that are correct on all of them.

    `logits` are those of each network on the same held-out samples, (N, K); errors as in
    :meth:`PostHoc.fit`, and ValueError if there is no network.
    """
    scalers, scaled = _each_scaled(logits, labels)
    alone = [log_losses_of_logits(each, labels) for each in scaled]
    # A temperature at an end of its range is not determined by the samples: a network that is
    # correct on all of them would seem perfect.
    determined = [index for index, scaler in enumerate(scalers) if not scaler.at_bound]
    order = sorted(determined or range(len(scaled)), key=lambda index: float(alone[index].mean()))
    first, *rest = order[:_POOL]
    members, losses, logs = [first], alone[first], torch.log_softmax(scaled[first], dim=1)
    while rest and len(members) < most:
        sums = {index: torch.logaddexp(logs, torch.log_softmax(scaled[index], 1)) for index in rest}
        found = {index: log_losses_of_logits(each, labels) for index, each in sums.items()}
        best = min(rest, key=lambda index: float(found[index].mean()))
        rise = found[best] - losses
        if rise.mean() > 2 * rise.std() / math.sqrt(len(rise)):
            break
        members.append(best)
        rest.remove(best)
        losses, logs = found[best], sums[best]
    return _ensemble_of(sorted(members), scalers, scaled, (labels, clusters, way))


def fit_mean(
    logits: Sequence[Tensor],
    labels: Tensor,
    clusters: Tensor | None = None,
    way: ScalingWay = USUAL_SCALING,
) -> Ensemble:
    """The ensemble of all networks with equal weights; arguments and errors of `fit_ensemble`."""
    scalers, scaled = _each_scaled(logits, labels)
    return _ensemble_of(range(len(scaled)), scalers, scaled, (labels, clusters, way))


Fit = Callable[[Sequence[Tensor], Tensor, Tensor | None], Ensemble]
"""Such as `fit_ensemble` and `fit_mean`."""


def cross_fitted_ensemble(
    logits: Sequence[Tensor], labels: Tensor, fit: Fit, clusters: Tensor | None = None
) -> Tensor:
    """Logits (N, K) of each half of a split from the ensemble that `fit` finds on the other half.

    So neither the selection nor a temperature makes its metrics optimistic. Rows of one of the
    ``clusters`` (N,) are in one half.
    """
    found = torch.empty_like(logits[0], dtype=torch.float64)
    for half in each_fold(random_folds(len(labels), clusters=clusters).to(labels.device)):
        ids = None if clusters is None else clusters[~half]
        ensemble = fit([each[~half] for each in logits], labels[~half], ids)
        found[half] = ensemble([each[half].double() for each in logits])
    return found


def _each_scaled(
    logits: Sequence[Tensor], labels: Tensor
) -> tuple[list[TemperatureScaling], list[Tensor]]:
    if not logits:
        raise ValueError("logits must hold those of at least one network")
    checked = [check_logits(each, labels)[0].double() for each in logits]
    scalers = [TemperatureScaling().fit(each, labels) for each in checked]
    return scalers, [scaler(each) for scaler, each in zip(scalers, checked, strict=True)]


def _ensemble_of(
    members: Sequence[int],
    scalers: Sequence[TemperatureScaling],
    scaled: Sequence[Tensor],
    known: tuple[Tensor, Tensor | None, ScalingWay],
) -> Ensemble:
    labels, clusters, way = known
    own_temperatures = tuple(scalers[index].temperature for index in members)
    if len(members) == 1:  # a second temperature would undo the prior of the first
        return Ensemble(tuple(members), own_temperatures, Scaling())
    mean = averaged([scaled[index] for index in members])
    scaling, _ = fit_scaling(mean, labels, way, clusters)
    bounded = scaling.name == "temperature" and TemperatureScaling().fit(mean, labels).at_bound
    return Ensemble(tuple(members), own_temperatures, Scaling() if bounded else scaling)
