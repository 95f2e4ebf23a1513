"""What is found about predictions, as values; :func:`plain` turns them into JSON's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from sweeps.judging.event_bins import EventBins
from sweeps.judging.measured import Measured, Metrics
from sweeps.judging.thresholds import Decided
from sweeps.messages.shares import Share
from trainables.metrics import Direction, ReliabilityBins
from trainables.metrics.inference.differences import Verdict
from trainables.posthoc.scaling import ScalingName

Word = Literal["overconfident", "underconfident", "neither"]


@dataclass(frozen=True)
class Gap:
    """Mean confidence less accuracy, with its interval."""

    gap: float
    low: float
    high: float

    @property
    def word(self) -> Word:
        return "overconfident" if self.low > 0 else "underconfident" if self.high < 0 else "neither"


@dataclass(frozen=True)
class EventFound:
    """The probability of the event, one of two classes.

    Attributes:
        name: The class.
        events: Number of samples of it.
        share: Its mean probability and frequency.
        intercept: Calibration intercept, in logits: above 0, the probabilities are too low.
        slope: Calibration slope: below 1, they are too extreme.
        bins: Of the reliability diagram.
    """

    name: str
    events: int
    share: Share
    intercept: Measured
    slope: Measured
    bins: EventBins

    @property
    def lines(self) -> dict[str, Measured]:
        """Intercept and slope by name."""
        return {"intercept": self.intercept, "slope": self.slope}


@dataclass(frozen=True)
class ClassFound:
    """A class: how many samples are of it, how many are predicted as it, and how well.

    `share` is known with few classes.
    """

    name: str
    true: int
    predicted: int
    confidence: float = math.nan
    accuracy: float = math.nan
    gap: Gap | None = None
    share: Share | None = None


@dataclass(frozen=True)
class GroupFound:
    """A group; one that is too small has only its number of samples.

    `share` is that of the event, if there is one.
    """

    name: str
    samples: int
    confidence: float = math.nan
    metrics: Metrics = field(default_factory=dict)
    gap: Gap | None = None
    share: Share | None = None


@dataclass(frozen=True)
class ScalingFound:
    """What scaling would achieve.

    Attributes:
        methods: The metrics after each method, cross-fitted.
        recommended: One of these methods, or ``none``.
        nll: NLL as given.
        refinement: NLL after the recommended method.
        temperature: Fitted on all samples.
        at_bound: Whether it is at the end of its range.
        floor: What a probability of 0 counts as in a logarithm; None if logits were given.
        at_floor: Number of samples whose class has a probability of 0.
    """

    methods: Mapping[str, Metrics]
    recommended: ScalingName
    nll: float
    refinement: float
    temperature: float
    at_bound: bool
    floor: float | None
    at_floor: int


SetsKind = Literal["all", "per_class"]
"""Whether prediction sets cover on average over all samples, or over those of each class."""


@dataclass(frozen=True)
class SetsFound:
    """Coverage of prediction sets of one method, and their mean size.

    `per_class` is the coverage of the samples of each class, known with few classes.
    """

    coverage: Measured
    size: float
    per_class: Mapping[str, Measured] = field(default_factory=dict)


@dataclass(frozen=True)
class Sets:
    """Prediction sets by method, for a coverage of `target`, measured on `samples`."""

    target: float
    samples: int
    methods: Mapping[str, SetsFound]
    kind: SetsKind = "all"


@dataclass(frozen=True)
class Judged:
    """What is known of a model's predictions; empty bins may have NaN.

    `clusters` is their number if they are the unit of intervals. `scaling` and `sets` are None
    where only the top label is known, or labels are soft; `sets` also with few samples.
    """

    name: str
    samples: int
    classes: int
    clusters: int | None
    metrics: Metrics
    direction: Direction
    bins: ReliabilityBins
    event: EventFound | None = None
    per_class: Sequence[ClassFound] = ()
    per_group: Sequence[GroupFound] = ()
    scaling: ScalingFound | None = None
    sets: Sets | None = None
    decided: Decided | None = None


@dataclass(frozen=True)
class Compared:
    """One metric of two models: the first's less the second's, at its own level.

    It is not `comparable`, and has no verdict, where probabilities of 0 decide the NLL.
    """

    metric: str
    ours: str
    theirs: str
    value: float
    low: float
    high: float
    level: float
    verdict: Verdict
    comparable: bool = True


@dataclass(frozen=True)
class Findings:
    """The judgement of one model, or of several on the same samples.

    `read` says in a line for each model what was read as what. `scaled` is the comparison after
    each model's recommended scaling, cross-fitted.
    """

    read: Sequence[str]
    models: Sequence[Judged]
    comparison: Sequence[Compared]
    scaled: Sequence[Compared] = ()


def plain(found: Findings) -> dict[str, object]:
    """Findings as ``calsweep judge --format json`` prints them, but for NaN."""
    return {
        "read": list(found.read),
        "models": [_model(each) for each in found.models],
        "comparison": [asdict(each) for each in found.comparison],
        "comparison_scaled": [asdict(each) for each in found.scaled],
    }


def _model(found: Judged) -> dict[str, object]:
    way = found.direction
    return {
        "name": found.name,
        "samples": found.samples,
        "classes": found.classes,
        "clusters": found.clusters,
        "metrics": _metrics(found.metrics),
        "direction": {
            "word": way.word,
            **dict(zip(("gap", "low", "high"), way.gap, strict=True)),
            "over": _measured(Measured(*way.over)),
            "under": _measured(Measured(*way.under)),
        },
        "bins": {key: column.tolist() for key, column in vars(found.bins).items()}
        | {"count": found.bins.count.int().tolist()},
        **({} if found.event is None else {"event": _event(found.event)}),
        "per_class": [_class(each) for each in found.per_class],
        "per_group": [_group(each) for each in found.per_group],
        **({} if found.decided is None else {"decided": asdict(found.decided)}),
        **({} if found.scaling is None else _scaling(found.scaling) | {"sets": _sets(found.sets)}),
    }


def _measured(found: Measured) -> dict[str, float]:
    return {key: value for key, value in vars(found).items() if value is not None}


def _metrics(found: Metrics) -> dict[str, dict[str, float]]:
    return {name: _measured(each) for name, each in found.items()}


def _gap(found: Gap | None) -> dict[str, object]:
    return {} if found is None else asdict(found) | {"word": found.word}


def _share(found: Share | None) -> dict[str, object]:
    if found is None:
        return {}
    frequency = {"value": found.frequency, "low": found.low, "high": found.high}
    return {"mean_probability": found.mean, "frequency": frequency, "level": found.word}


def _event(found: EventFound) -> dict[str, object]:
    return {
        "name": found.name,
        "events": found.events,
        **_share(found.share),
        "intercept": _measured(found.intercept),
        "slope": _measured(found.slope),
        "bins": {
            "count": list(found.bins.counts),
            "mean_probability": list(found.bins.means),
            "frequency": list(found.bins.frequencies),
            "low": list(found.bins.lows),
            "high": list(found.bins.highs),
        },
    }


def _class(found: ClassFound) -> dict[str, object]:
    entry = {
        "class": found.name,
        "true": found.true,
        "predicted": found.predicted,
        **_share(found.share),
    }
    if not found.predicted:
        return entry
    return entry | {"confidence": found.confidence, "accuracy": found.accuracy} | _gap(found.gap)


def _group(found: GroupFound) -> dict[str, object]:
    entry = {"group": found.name, "samples": found.samples}
    if found.gap is None:
        return entry
    return {
        **entry,
        **_metrics(found.metrics),
        "confidence": found.confidence,
        **_gap(found.gap),
        **_share(found.share),
    }


def _scaling(found: ScalingFound) -> dict[str, object]:
    return {
        "scaling": {name: _metrics(each) for name, each in found.methods.items()},
        "recommended": found.recommended,
        "refinement": found.refinement,
        "calibration": found.nll - found.refinement,
        "temperature": found.temperature,
        "at_bound": found.at_bound,
        "floor": found.floor,
        "at_floor": found.at_floor,
    }


def _sets(found: Sets | None) -> dict[str, object]:
    if found is None:
        return {}
    methods = {
        name: _measured(each.coverage) | {"size": each.size, "per_class": _metrics(each.per_class)}
        for name, each in found.methods.items()
    }
    return {"coverage": found.target, "samples": found.samples, "kind": found.kind, **methods}
