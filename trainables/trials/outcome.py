"""The outcome of a trial: metrics on validation and test, raw and after temperature scaling."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Self

import torch
from torch import Tensor

from trainables import metrics as M
from trainables.contract.config import Criterion
from trainables.contract.metric_names import MetricName, SplitName, Statistic
from trainables.data.core.base import EvaluationSet
from trainables.data.core.tasks import each_label
from trainables.files.rows import Rows
from trainables.metrics.own_metric import OwnMetric
from trainables.posthoc import Scaling, TemperatureScaling, cross_fitted

Predictions = tuple[Tensor, Tensor]
_RESAMPLES = 200  # bootstrap resamples of custom metrics, which may be slow


@dataclass(frozen=True)
class Extent:
    """The metrics of an outcome.

    Attributes:
        names: Metrics, raw and scaled, on both splits; None for all.
        intervals: Those with an interval: ``ece`` wherever it is measured, ``val_ece`` only there.
            Calibration errors among them also get a reference.
        references: Further calibration errors with a reference.
        own: Custom metrics by name; their intervals are from the bootstrap.
    """

    names: tuple[str, ...] | None = None
    intervals: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    own: Mapping[str, OwnMetric] = field(default_factory=dict)

    @classmethod
    def of_search(
        cls, deciding: Sequence[str], own: Mapping[str, OwnMetric], *, ended: bool
    ) -> Self:
        """What the search reads: few metrics and, once a trial has ended, few intervals.

        `deciding` are the objectives and the metrics with a limit, such as ``val_ece``.
        """
        return cls(_usual(deciding), ("val_error", *deciding) if ended else (), own=own)

    @classmethod
    def whole(cls, deciding: Sequence[str], own: Mapping[str, OwnMetric] | None = None) -> Self:
        """What a result shows, which takes ten times as long; `own` are custom metrics."""
        own, references = own or {}, tuple(e for e in M.REFERENCED_METRICS if e in M.METRIC_NAMES)
        return cls(None, (*_usual(deciding), *own), references, own)

    def at(self, split: SplitName, *, scaled: bool) -> Self:
        """The extent on one split, with the intervals by the names of their metrics."""
        named = (MetricName.parse(name) for name in self.intervals)
        here = (n.metric for n in named if not n.split or (n.split, n.scaled) == (split, scaled))
        return replace(self, intervals=tuple(dict.fromkeys(here)))


def _usual(deciding: Sequence[str]) -> tuple[str, ...]:
    metrics = (MetricName.parse(name).metric for name in deciding)
    return tuple(dict.fromkeys((*M.EPOCH_METRICS, *(m for m in metrics if m in M.METRICS))))


def summarise(
    validation: Rows,
    test: Rows,
    adapting: Predictions | None = None,
    extent: Extent = Extent(),
    criterion: Criterion = "nll",
) -> dict[str, float]:
    """The metrics of one trained classifier.

    The temperature is fitted on the validation split, or on the part of it that is reserved
    for this (``adapting``). On the validation split, the scaled metrics are cross-fitted: the
    temperature of each half is fitted on the other half. With several decisions per sample, all
    metrics, and the ends of intervals, are means over the decisions, as if their errors were
    perfectly correlated.

    Args:
        validation: Predictions on the validation split.
        test: Predictions on the test split, which is never used for selection.
        adapting: Logits and labels to fit the temperature on, if they are separate.
        extent: Which metrics and intervals; by default all metrics.
        criterion: How the temperature is fitted; see
            :class:`~trainables.posthoc.TemperatureScaling`.

    Returns:
        Values by :class:`~trainables.contract.metric_names.MetricName`, such as ``val_ece``,
            ``test_nll_scaled``, and statistics of :func:`trainables.metrics.interval`,
            :func:`trainables.metrics.calibrated_reference` and, with an interval of the NLL on the
            test split, :func:`trainables.metrics.nll_calibration`; also ``temperature`` and
            ``temperature_at_bound`` (1.0 if it is at an end of its range). Undefined values are
            left out.
    """
    scaler = TemperatureScaling(criterion).fit(*(adapting or validation.tensors()))
    # Metrics of the samples of the fit would be optimistic.
    crossed = criterion if adapting is None else None
    return {
        "temperature": float(scaler.temperature),
        "temperature_at_bound": float(scaler.at_bound),
        **_of_splits((validation, test), extent, scaler.temperature, crossed),
    }


def completed(
    outcome: Mapping[str, float],
    validation: Rows,
    test: Rows,
    extent: Extent,
    criterion: Criterion | None,
) -> dict[str, float]:
    """A trial's outcome with further metrics, from its stored predictions.

    What it has stays. `extent` and `criterion` are those of :func:`summarise`, the criterion None
    if the temperature was fitted on other samples than these.
    """
    return _of_splits((validation, test), extent, outcome["temperature"], criterion) | {**outcome}


def _of_splits(
    both: tuple[Rows, Rows], extent: Extent, temperature: float, crossed: Criterion | None
) -> dict[str, float]:
    """The metrics of validation and test split, as trained and after temperature scaling.

    With a criterion, the temperature of the validation split is cross-fitted by it.
    """
    values: dict[str, float] = {}
    splits: tuple[SplitName, ...] = ("val", "test")
    for split, rows in zip(splits, both, strict=True):
        logits, labels = rows.tensors()
        scaled = logits / temperature
        if split == "val" and crossed is not None:
            make = partial(TemperatureScaling, crossed)
            scaled = cross_fitted(logits, labels, make, clusters=rows.clusters())
        for after, each in ((False, logits), (True, scaled)):
            found = _measured((each, labels), extent.at(split, scaled=after), rows)
            values |= {
                str(MetricName(metric, split, after, statistic)): value
                for (metric, statistic), value in found.items()
            }
        if split == "test" and "nll" in extent.at("test", scaled=False).intervals:
            _, low, high = M.nll_calibration(logits, scaled, labels, clusters=rows.units())
            values |= {"test_nll_calibration_low": low, "test_nll_calibration_high": high}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _measured(
    predictions: Predictions, extent: Extent, rows: Rows
) -> dict[tuple[str, Statistic], float]:
    """The values of the predictions of `rows` by metric and statistic."""
    (logits, labels), decisions, clusters = predictions, rows.decisions, rows.clusters()
    found: dict[tuple[str, Statistic], float] = {}
    for name, value in evaluate(logits, labels, extent.names, decisions).items():
        found[name, ""] = value
    probs = each_label(torch.softmax(logits.double(), dim=1), decisions)
    parts = list(zip(probs, each_label(labels, decisions), strict=True))
    ids = None if clusters is None else clusters[::decisions]
    for name, function in extent.own.items():
        found[name, ""] = _mean(float(function(*part)) for part in parts)
        if name in extent.intervals:
            _, found[name, "low"], found[name, "high"] = _means(
                M.bootstrap(function, *part, num_resamples=_RESAMPLES, clusters=ids)
                for part in parts
            )
    names = [name for name in extent.intervals if name in M.METRICS]
    of_parts = [M.intervals(*part, names, clusters=ids) for part in parts]
    for name in names:
        value, found[name, "low"], found[name, "high"] = _means(each[name] for each in of_parts)
        found.setdefault((name, ""), value)  # a metric on request
    for name in dict.fromkeys((*names, *extent.references)):
        if name in M.REFERENCED_METRICS:
            found[name, "calibrated"], _, found[name, "calibrated_high"] = _means(
                M.calibrated_reference(name, each, labels=truth, clusters=ids)
                for each, truth in parts
            )
    return found


def evaluate(
    logits: Tensor, labels: Tensor, names: Sequence[str] | None = None, decisions: int = 1
) -> dict[str, float]:
    """Like :func:`trainables.metrics.evaluate`, averaged over the decisions of a sample.

    ``logits`` are (N · decisions, K), ``labels`` (N · decisions,); the rows of a sample are
    consecutive. The mean ignores decisions for which a metric is undefined, such as the AUROC of a
    label that never occurs.
    """
    parts = zip(each_label(logits, decisions), each_label(labels, decisions), strict=True)
    found = [M.evaluate(*part, names) for part in parts]
    return {name: _mean(each[name] for each in found) for name in found[0]}


def _means(found: Iterable[tuple[float, float, float]]) -> tuple[float, ...]:
    return tuple(map(_mean, zip(*found, strict=True)))


def _mean(values: Iterable[float]) -> float:
    """Mean of the values that are not NaN."""
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else math.nan


_SHIFT_METRICS = (
    *("ece", "adaptive_ece", "classwise_ece", "classwise_adaptive_ece", "smooth_ece"),
    *("nll", "error", "auroc"),
)


def summarise_evaluation_sets(
    sets: Sequence[tuple[EvaluationSet, Predictions]], test: Predictions, scaling: Scaling
) -> dict[str, float]:
    """Metrics of a classifier on shifted and out-of-distribution data.

    From the logits (N, K) and labels (N,) of each set. For shift sets, ``shift_<name>_<metric>`` or
    ``shift_<name>_<severity>_<metric>``: calibration errors, NLL, error and AUROC, averaged over
    the sets (corruptions) of a name and severity. For out-of-distribution sets,
    ``ood_<name>_<metric>``: :func:`~trainables.metrics.ood_metrics` of the largest probability,
    with the test split as in-distribution. All of them also with the network's scaling, as
    ``..._scaled``. Undefined values are left out.
    """
    found: dict[str, list[float]] = {}
    for each, (logits, labels) in sets:
        name = f"{each.kind}_{re.sub(r'[^0-9A-Za-z_]', '_', each.name)}"
        name += f"_{each.severity}" if each.severity else ""
        for ending, scaled in (("", Scaling()), ("_scaled", scaling)):
            if each.kind == "shift":
                values = M.evaluate(scaled(logits), labels, names=_SHIFT_METRICS)
            else:
                inside, outside = (
                    torch.softmax(scaled(some.double()), dim=1).amax(dim=1)
                    for some in (test[0], logits)
                )
                values = M.ood_metrics(inside, outside)
            for metric, value in values.items():
                found.setdefault(f"{name}_{metric}{ending}", []).append(value)
    means = {name: sum(values) / len(values) for name, values in found.items()}
    return {name: mean for name, mean in means.items() if math.isfinite(mean)}
