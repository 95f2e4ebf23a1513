"""Ensembles of networks that are already trained: greedy selection on held-out predictions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.metrics._inputs import check_logits
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc.crossfit import stratified_half
from trainables.posthoc.temperature import TemperatureScaling

MOST_MEMBERS = 5
_POOL = 20  # networks that are looked at, the best by themselves


@dataclass(frozen=True)
class Ensemble:
    """The mean of the members' calibrated probabilities, then a temperature.

    Attributes:
        members: Indices of the networks, ascending; one that counts twice is there twice.
        temperatures: Of each member, that its logits are divided by.
        temperature: Of the mean, that its logarithm is divided by.
    """

    members: tuple[int, ...]
    temperatures: tuple[float, ...]
    temperature: float

    def __call__(self, logits: Sequence[Tensor]) -> Tensor:
        """Calibrated logits (N, K) of those of all networks, (N, K) each."""
        own = [
            logits[index] / temperature
            for index, temperature in zip(self.members, self.temperatures, strict=True)
        ]
        return averaged(own) / self.temperature


def averaged(logits: Sequence[Tensor]) -> Tensor:
    """Logarithms (N, K, ...) of the mean of probabilities, of logits (N, K, ...) each."""
    logs = torch.stack([torch.log_softmax(each, dim=1) for each in logits])
    return torch.logsumexp(logs, dim=0) - math.log(len(logits))


def fit_ensemble(logits: Sequence[Tensor], labels: Tensor, most: int = MOST_MEMBERS) -> Ensemble:
    """Greedy selection with replacement (Caruana et al. 2004) among trained networks.

    Each network gets its own temperature first. In each step the network is added with which the
    mean of the probabilities has the lowest negative log-likelihood; a network may be added again,
    which gives it more weight. It ends with `most` members, or where no addition lowers the loss.
    Only the 20 best networks are looked at whose temperature the samples determine; where that of
    the mean is not, it is 1. A temperature is not fitted anew within the steps: with few samples it
    rewards ensembles that are right on all of them with endless confidence.

    Args:
        logits: Of each network on the same held-out samples, (N, K) each.
        labels: True classes, (N,), integers.
        most: Members at most.

    Raises:
        TypeError: If logits or labels are not tensors of floats and of integers.
        ValueError: If shapes or values are not as above, or there is no network.
    """
    if not logits:
        raise ValueError("logits must hold those of at least one network")
    checked = [check_logits(each, labels)[0].double() for each in logits]
    scalers = [TemperatureScaling().fit(each, labels) for each in checked]
    scaled = [scaler(each) for scaler, each in zip(scalers, checked, strict=True)]
    alone = [_loss(each, labels) for each in scaled]
    # A temperature at an end of its range is not determined: on so few samples a network that is
    # right on all of them would seem perfect.
    determined = [index for index, scaler in enumerate(scalers) if not scaler.at_bound]
    pool = sorted(determined or range(len(scaled)), key=alone.__getitem__)[:_POOL]
    members: list[int] = []
    lowest = math.inf
    for _ in range(most):
        own = [scaled[index] for index in members]
        losses = {index: _loss(averaged([*own, scaled[index]]), labels) for index in pool}
        best = min(losses, key=losses.__getitem__)
        if losses[best] >= lowest:
            break
        lowest = losses[best]
        members.append(best)
    members.sort()
    last = TemperatureScaling().fit(averaged([scaled[index] for index in members]), labels)
    own_temperatures = tuple(scalers[index].temperature for index in members)
    return Ensemble(tuple(members), own_temperatures, 1.0 if last.at_bound else last.temperature)


def cross_fitted_ensemble(logits: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Logits (N, K) of each half of a split by the ensemble that was selected on the other half.

    So neither the selection nor a temperature flatters what is measured of it. Arguments and
    errors as of :func:`fit_ensemble`.
    """
    first = stratified_half(labels)
    found = torch.empty_like(logits[0], dtype=torch.float64)
    for half in (first, ~first):
        ensemble = fit_ensemble([each[~half] for each in logits], labels[~half])
        found[half] = ensemble([each[half].double() for each in logits])
    return found


def _loss(logits: Tensor, labels: Tensor) -> float:
    return float(log_losses_of_logits(logits, labels).mean())
