"""The probability of the event: of the less frequent of two classes, or of the one that is named.

Also the mean probability of each class against its frequency.
"""

from __future__ import annotations

from torch import Tensor

from sweeps.errors import UserError
from sweeps.judging.classes import places
from sweeps.judging.event_bins import event_bins, event_index
from sweeps.judging.facts import EventFound
from sweeps.judging.gaps import gap_of
from sweeps.judging.inputs import Predicted
from sweeps.judging.measured import LEVEL, Measured
from sweeps.judging.names import shortened
from sweeps.messages.shares import Share
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.recalibration import calibration_intercept, calibration_slope

MOST_CLASSES = 20  # for which each class's mean probability is compared with its frequency


def event_of(model: Predicted, asked: str | None = None) -> int | None:
    """The index of the event: the class that is asked for, or the less frequent of two classes.

    None with more classes, with soft labels, and where only the top label is known.

    Raises:
        UserError: An event is asked for that there is not.
    """
    known = len(model.classes) == 2 and model.soft is None and not model.top_label_only
    if asked is None:
        return event_index(model.labels) if known else None
    if (found := places([asked], model.classes)) is None:
        raise UserError(
            f"{model.name}: event {asked!r} is not a class; the classes are "
            f"{shortened(model.classes)}"
        )
    if not known:
        raise UserError(
            f"{model.name}: event {asked!r} needs one label for each sample and the probabilities "
            f"of two classes; there are {len(model.classes)} classes"
        )
    return found[asked]


def share_of(
    probs: Tensor, happened: Tensor, clusters: Clusters | None, level: float = LEVEL
) -> Share:
    """The mean probability (N,) of a class against how often it happened (N,)."""
    gap = gap_of(probs.double(), happened.double(), level, clusters)
    mean = float(probs.double().mean())
    # Rounding may leave -1e-17; NaN stays.
    low, high = (
        0.0 if end < 0 else 1.0 if end > 1 else end for end in (mean - gap.high, mean - gap.low)
    )
    return Share(mean, float(happened.double().mean()), low, high)


def event_found(model: Predicted, index: int) -> EventFound:
    """What is known about the probability of the event, besides its metrics."""
    clusters = clusters_of(model.clusters, len(model.labels))
    scores = (model.logits[:, index] - model.logits[:, 1 - index]).double()
    event = model.labels == index
    return EventFound(
        name=model.classes[index],
        events=int(event.sum()),
        share=share_of(model.probs[:, index], event, clusters),
        intercept=Measured(*calibration_intercept(scores, event, LEVEL, clusters)),
        slope=Measured(*calibration_slope(scores, event, LEVEL, clusters)),
        bins=event_bins(model.probs[:, index], event, independent=clusters is None),
    )
