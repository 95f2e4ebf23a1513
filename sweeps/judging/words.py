"""Sentences and table cells of a judgement, for the terminal and the page."""

from __future__ import annotations

import math
from typing import Any

from sweeps.messages.formatting import format_fraction, metric_heading
from trainables.contract.metric_names import FEWEST_CLUSTERS

Facts = dict[str, Any]

METHODS = {
    "as given": "as given",
    "temperature": "temperature",
    "structured_vector": "structured vector",
    "structured_matrix": "structured matrix",
}
_SET_NAMES = {"lac": "LAC", "aps": "APS", "raps": "RAPS"}
_MOST_CLASSES = 15
_VERDICTS = {
    "supported": "better, supported",
    "not supported": "not supported, may be chance",
    "worse": "worse, supported",
}


def with_interval(found: Facts) -> str:
    """``.0434 [.0400, .0470]``; the value alone if there is no interval.

    A calibration error outside its interval is followed by the estimate that the interval is about.
    """
    if math.isnan(found["low"]):
        return format_fraction(found["value"])
    text = format_fraction(found["value"])
    if "corrected" in found:
        text += f", corrected {format_fraction(found['corrected'])}"
    return f"{text} [{format_fraction(found['low'])}, {format_fraction(found['high'])}]"


def read_lines(found: Facts) -> list[str]:
    """What was read as what, one line for each model."""
    if len(found["read"]) == 1:
        return [f"read: {found['read'][0]}"]
    names = [each["name"] for each in found["models"]]
    return [f"read {name}: {line}" for name, line in zip(names, found["read"], strict=True)]


def summary(model: Facts) -> list[str]:
    """The main findings about one model, one sentence each."""
    way = model["direction"]
    lines = [f"{model['samples']:,} samples, {model['classes']} classes.", *_on_clusters(model)]
    signed = f"{way['gap']:+.4f} [{way['low']:+.4f}, {way['high']:+.4f}]"
    word = "neither over- nor underconfident" if way["word"] == "neither" else way["word"]
    lines.append(f"On average {word}: confidence - accuracy {signed}.")
    lines.append(
        f"ECE {format_fraction(model['metrics']['ece']['value'])}: "
        f"{with_interval(way['over'])} from overconfident bins, "
        f"{with_interval(way['under'])} from underconfident ones."
    )
    return lines + (_of_scaling(model) if "scaling" in model else [])


def _on_clusters(model: Facts) -> list[str]:
    count = model["clusters"]
    if count is None:
        return []
    if count < FEWEST_CLUSTERS:
        return [
            f"{count} clusters are the unit: at least {FEWEST_CLUSTERS} are needed for intervals "
            "and verdicts."
        ]
    return [f"Intervals and verdicts take {count:,} clusters as the unit."]


def _of_scaling(model: Facts) -> list[str]:
    scaling, lines = model["scaling"], []
    nll, refined = model["metrics"]["nll"]["value"], model["refinement"]
    best = model["recommended"]
    name = f"temperature {model['temperature']:.3f}"
    if best != "temperature":
        name = f"{METHODS[best]} scaling"
    lines.append(
        f"Recommended (*): {name}. It lowers "
        f"NLL from {nll:.4f} to {refined:.4f} and ECE from "
        f"{format_fraction(model['metrics']['ece']['value'])} to "
        f"{format_fraction(scaling[best]['ece']['value'])} (cross-fitted)."
        if refined < nll
        else "No scaling lowers the NLL: use the predictions as they are."
    )
    lines.append(
        f"NLL {nll:.4f} = calibration {model['calibration']:.4f} + refinement {refined:.4f} "
        f"(the NLL after {name}, cross-fitted)."
    )
    # An end that is NaN excludes nothing.
    if any(m["value"] < m["low"] or m["value"] > m["high"] for m in model["metrics"].values()):
        lines.append(
            "Noise raises calibration errors. An interval is about the error without it, so "
            "a value may lie above its interval; “corrected” is the estimate, where there is one."
        )
    return lines + _bounds(model)


def _bounds(model: Facts) -> list[str]:
    """What the data do not determine: logarithms of 0, and a temperature at an end of its range."""
    lines = []
    if model["at_floor"]:
        lines.append(
            f"{model['at_floor']:,} samples have probability 0 for their class, which counts as "
            f"{model['floor']:.2g}: NLL and temperature are lower bounds."
        )
    if model["at_bound"]:
        lines.append(
            f"The temperature {model['temperature']:g} is at the end of its range: these samples "
            "do not determine it."
        )
    return lines


def scaling_rows(model: Facts) -> list[list[str]]:
    """Method, NLL, Brier, ECE and error, as given and after each method."""
    if "scaling" not in model:
        return []
    found = {"as given": model["metrics"], **model["scaling"]}
    return [
        [
            METHODS[name] + (" *" if name == model["recommended"] else ""),
            with_interval(metrics["nll"]),
            format_fraction(metrics["brier"]["value"]),
            with_interval(metrics["ece"]),
            format_fraction(metrics["error"]["value"]),
        ]
        for name, metrics in found.items()
    ]


def comparison_rows(comparison: list[Facts]) -> list[list[str]]:
    return [
        [
            metric_heading(each["metric"]),
            f"{each['ours']} - {each['theirs']}",
            f"{each['value']:+.4f} [{each['low']:+.4f}, {each['high']:+.4f}]",
            _VERDICTS[each["verdict"]],
        ]
        for each in comparison
    ]


def class_rows(model: Facts) -> list[list[str]]:
    """The classes with the largest weighted gaps: name, counts, confidence, accuracy, gap, word."""
    known = [each for each in model["per_class"] if "gap" in each]
    shown = sorted(known, key=lambda each: -each["predicted"] * abs(each["gap"]))[:_MOST_CLASSES]
    return [
        [each["class"], str(each["true"]), str(each["predicted"]), *_gap_cells(each)]
        for each in shown
    ]


def group_rows(model: Facts) -> list[list[str]]:
    """Group, samples, error, ECE, gap and word; small groups have only their count."""
    return [
        [
            each["group"],
            str(each["samples"]),
            *(
                (with_interval(each["error"]), with_interval(each["ece"]), *_gap_cells(each)[2:])
                if "gap" in each
                else ("–", "–", "–", "too few samples")
            ),
        ]
        for each in model["per_group"]
    ]


def set_rows(model: Facts) -> list[list[str]]:
    """Method, coverage and mean size of prediction sets; empty with too few samples."""
    return [
        [name, with_interval(model["sets"][key]), f"{model['sets'][key]['size']:.2f}"]
        for key, name in _SET_NAMES.items()
        if key in model.get("sets", {})
    ]


def _gap_cells(each: Facts) -> list[str]:
    return [
        format_fraction(each["confidence"]),
        format_fraction(each["confidence"] - each["gap"]),
        f"{each['gap']:+.4f} [{each['low']:+.4f}, {each['high']:+.4f}]",
        "" if each["word"] == "neither" else each["word"],
    ]
