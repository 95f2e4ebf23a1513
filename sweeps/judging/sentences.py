"""Sentences and table cells of a judgement, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sweeps.judging.event_sentences import event_lines, with_interval
from sweeps.judging.facts import (
    ClassFound,
    Compared,
    Findings,
    Gap,
    Judged,
    ScalingFound,
    SetsFound,
)
from sweeps.judging.measured import Measured
from sweeps.messages.formatting import format_fraction, metric_heading
from trainables.contract.metric_names import FEWEST_CLUSTERS

METHODS = {
    "none": "as given",
    "temperature": "temperature",
    "vector": "structured vector",
    "beta": "beta",
    "matrix": "structured matrix",
}
_SET_NAMES = {"lac": "LAC", "aps": "APS", "raps": "RAPS"}
_VERDICTS = {
    "supported": "better",
    "not supported": "may be chance",
    "worse": "worse",
}


def signed(found: Gap | Compared, value: float) -> str:
    """A difference and its interval: ``+.0140 [+.0100, +.0180]``."""
    return f"{value:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def read_lines(found: Findings) -> list[str]:
    """What was read as what, one line for each model."""
    if len(found.read) == 1:
        return [f"read: {found.read[0]}"]
    names = [each.name for each in found.models]
    return [f"read {name}: {line}" for name, line in zip(names, found.read, strict=True)]


def summary(model: Judged) -> list[str]:
    """The main findings about one model, one sentence each."""
    way = Gap(*model.direction.gap)
    word = "neither over- nor underconfident" if way.word == "neither" else way.word
    average = "On average" if model.event is None else "Top label: on average"
    return [
        *([] if model.event is None else event_lines(model.event, model.metrics)),
        f"{model.samples:,} samples, {model.classes} classes.",
        *_on_clusters(model.clusters),
        f"{average} {word}: confidence - accuracy {signed(way, way.gap)}.",
        f"ECE {format_fraction(model.metrics['ece'].value)}: "
        f"{with_interval(Measured(*model.direction.over))} from overconfident bins, "
        f"{with_interval(Measured(*model.direction.under))} from underconfident ones.",
        *([] if model.scaling is None else _of_scaling(model, model.scaling)),
        *uncovered_lines(model),
        *([] if model.decided is None else model.decided.lines),
    ]


def _on_clusters(count: int | None) -> list[str]:
    if count is None:
        return []
    if count < FEWEST_CLUSTERS:
        return [
            f"{count} clusters are the unit: at least {FEWEST_CLUSTERS} are needed for intervals "
            "and verdicts."
        ]
    return [f"Intervals and verdicts take {count:,} clusters as the unit."]


def _of_scaling(model: Judged, scaling: ScalingFound) -> list[str]:
    nll, refined, best = scaling.nll, scaling.refinement, scaling.recommended
    name = f"{METHODS[best]} scaling"
    if best == "temperature":
        name = f"temperature {scaling.temperature:.3f}"
    error = error_of(model)
    lines = [
        "No scaling is shown to lower the NLL: use the predictions as they are (*)."
        if best == "none"
        else f"Recommended (*): {name}. It lowers "
        f"NLL from {nll:.4f} to {refined:.4f} and {metric_heading(error)} from "
        f"{format_fraction(model.metrics[error].value)} to "
        f"{format_fraction(scaling.methods[best][error].value)} (cross-fitted).",
    ]
    if best != "none":
        lines.append(
            f"NLL {nll:.4f} = calibration {nll - refined:.4f} + refinement {refined:.4f} "
            f"(the NLL after {name}, cross-fitted)."
        )
    if not all(each.inside for each in model.metrics.values()):
        lines.append(
            "Noise raises calibration errors. An interval is about the error without it, so "
            "a value may lie above its interval; “corrected” is the estimate, where there is one."
        )
    return lines + _bounds(scaling)


def _bounds(scaling: ScalingFound) -> list[str]:
    """What the data do not determine: logarithms of 0, and a temperature at an end of its range."""
    lines = []
    if scaling.at_floor:
        lines.append(
            f"{scaling.at_floor:,} samples have probability 0 for their class, which counts as "
            f"{scaling.floor:.2g}: NLL and temperature are lower bounds."
        )
    if scaling.at_bound:
        lines.append(
            f"The temperature {scaling.temperature:g} is at the end of its range: these samples "
            "do not determine it."
        )
    return lines


def error_of(model: Judged) -> str:
    """The calibration error that counts: of the event, if there is one."""
    return "ece" if model.event is None else "event_ece"


def scaling_headings(model: Judged) -> tuple[str, ...]:
    """The headings of :func:`scaling_rows`, after that of the method."""
    return "NLL", "Brier", metric_heading(error_of(model)), "error", "gap"


def scaling_rows(model: Judged) -> list[list[str]]:
    """Method, NLL, Brier, ECE, error and gap, as given and after each method."""
    if model.scaling is None:
        return []
    return [
        [
            METHODS[name] + (" *" if name == model.scaling.recommended else ""),
            with_interval(metrics["nll"]),
            format_fraction(metrics["brier"].value),
            with_interval(metrics[error_of(model)]),
            format_fraction(metrics["error"].value),
            with_interval(metrics["gap"]) if "gap" in metrics else "",
        ]
        for name, metrics in {"none": model.metrics, **model.scaling.methods}.items()
    ]


def use_line(found: Findings) -> list[str]:
    """Which model to use, and with which scaling, by the NLL after scaling; empty for one model."""
    by_nll = [each for each in found.scaled if each.metric == "nll"]
    models = {each.name: each for each in found.models}
    first = found.models[0].name
    if not by_nll:
        return []
    if better := [each.ours for each in by_nll if each.verdict == "supported"]:
        return [
            f"Use {_with_scaling(min(better, key=lambda name: _refined(models[name])), models)}."
        ]
    if not (equal := [each.ours for each in by_nll if each.verdict == "not supported"]):
        return [f"Use {_with_scaling(first, models)}."]
    shown = ", or ".join(_with_scaling(name, models) for name in (first, *equal))
    return [f"After scaling, no difference of NLL beyond chance: use {shown}."]


def _refined(model: Judged) -> float:
    return math.inf if model.scaling is None else model.scaling.refinement


def _with_scaling(name: str, models: Mapping[str, Judged]) -> str:
    """``a, with a temperature of 1.46``."""
    scaling = models[name].scaling
    if scaling is None or scaling.recommended == "none":
        return f"{name}, as it is"
    if scaling.recommended == "temperature":
        return f"{name}, with a temperature of {scaling.temperature:.2f}"
    return f"{name}, with {METHODS[scaling.recommended]} scaling"


def comparison_rows(comparison: Sequence[Compared]) -> list[list[str]]:
    return [
        [
            metric_heading(each.metric),
            f"{each.ours} - {each.theirs}",
            signed(each, each.value),
            _VERDICTS[each.verdict] if each.comparable else "none: probabilities of 0",
        ]
        for each in comparison
    ]


def class_rows(model: Judged) -> list[list[str]]:
    """The classes with the largest weighted gaps: name, counts, confidence, accuracy, gap, word."""

    def weight(found: ClassFound) -> float:
        return 0.0 if found.gap is None else found.predicted * abs(found.gap.gap)

    shown = sorted(model.per_class, key=weight, reverse=True)[:15]
    return [
        [each.name, str(each.true), str(each.predicted), *_gap_cells(each.gap, each.confidence)]
        for each in shown
        if each.gap is not None
    ]


def group_rows(model: Judged) -> list[list[str]]:
    """Group, samples, error, ECE, gap and word; small groups have only their count."""
    return [
        [
            each.name,
            str(each.samples),
            *(
                ("–", "–", "–", "too few samples")
                if each.gap is None
                else (
                    with_interval(each.metrics["error"]),
                    with_interval(each.metrics["ece"]),
                    *_gap_cells(each.gap, each.confidence)[2:],
                )
            ),
        ]
        for each in model.per_group
    ]


def set_rows(model: Judged) -> list[list[str]]:
    """Method, coverage and mean size of prediction sets; empty with too few samples."""
    methods = {} if model.sets is None else model.sets.methods
    return [
        [_SET_NAMES[name], with_interval(each.coverage), f"{each.size:.2f}", _least(each)]
        for name, each in methods.items()
    ]


def _least(found: SetsFound) -> str:
    """The class with the lowest coverage."""
    if not found.per_class:
        return "–"
    name = min(found.per_class, key=lambda each: found.per_class[each].value)
    return f"{name} {with_interval(found.per_class[name])}"


def uncovered_lines(model: Judged) -> list[str]:
    """The classes that LAC's sets cover less than their target, beyond chance."""
    if model.sets is None or "lac" not in model.sets.methods:
        return []
    per_class, target = model.sets.methods["lac"].per_class, model.sets.target
    short = [name for name, each in per_class.items() if each.high < target]
    if not short or model.sets.kind == "per_class":
        return []
    shown = ", ".join(f"{name} {with_interval(per_class[name])}" for name in short)
    return [
        f"Prediction sets for {target:.0%} hold some classes less often: {shown}. Sets for each "
        "class: `sets=per_class`."
    ]


def _gap_cells(found: Gap, confidence: float) -> list[str]:
    return [
        format_fraction(confidence),
        format_fraction(confidence - found.gap),
        signed(found, found.gap),
        "" if found.word == "neither" else found.word,
    ]
