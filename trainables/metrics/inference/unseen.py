"""Losses that a row may have if it is unlike those that were seen, for intervals of means.

A file of good predictions may hold no error at all, or none that cost much. The predictions say
what one would cost: the mean loss of a label that is drawn from all classes but the predicted one;
a quarter of the rows would cost more.
"""

from torch import Tensor

from trainables.metrics._inputs import map_rows
from trainables.metrics._ranked import spread_rows
from trainables.metrics.proper_scores import probability_floor

Ends = tuple[float, float]

_ELEMENTS, _ROWS = 2**20, 500  # that the quantile is computed from
_SHARE = 0.75  # of the rows, which would cost less


def unseen_log_losses(probs: Tensor) -> Ends:
    """The least log loss, and that of another label, from checked probabilities (N, K)."""
    some = probs[spread_rows(probs, _ROWS, _ELEMENTS)]
    floor = probability_floor(probs) if bool((some == 0).any()) else 0.0
    losses = map_rows(_other_log_losses, some.double().clamp(min=floor).log())
    return 0.0, float(losses.quantile(_SHARE))


def unseen_log_losses_of_logits(logits: Tensor) -> Ends:
    """The same from checked logits (N, K)."""
    some = logits[spread_rows(logits, _ROWS, _ELEMENTS)].double()
    return 0.0, float(map_rows(_other_log_losses, some.log_softmax(dim=1)).quantile(_SHARE))


def unseen_squared_errors(probs: Tensor) -> Ends:
    """The least squared error, and that of another label, from checked probabilities (N, K)."""
    some = probs[spread_rows(probs, _ROWS, _ELEMENTS)].double()
    others = (1 - some.amax(dim=1)) / (some.shape[1] - 1)
    return 0.0, float((some.square().sum(dim=1) + 1 - 2 * others).mean())


def _other_log_losses(log_probs: Tensor) -> Tensor:
    possible = log_probs.isfinite()  # masked classes cannot be labels
    total = log_probs.where(possible, 0).sum(dim=1)
    return (log_probs.amax(dim=1) - total) / (possible.sum(dim=1) - 1).clamp(min=1)
