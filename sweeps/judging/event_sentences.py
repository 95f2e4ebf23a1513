"""Sentences and table cells about the probability of the event, and of each class."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sweeps.judging.facts import ClassFound, EventFound, GroupFound
from sweeps.judging.measured import Measured, Metrics
from sweeps.messages.formatting import format_fraction
from sweeps.messages.shares import Share, by_how_much, share_line


def with_interval(found: Measured) -> str:
    """``.0434 [.0400, .0470]``; the value alone if there is no interval.

    A calibration error outside its interval is followed by the estimate that the interval is about.
    """
    text = format_fraction(found.value)
    if math.isnan(found.low):
        return text
    if found.corrected is not None:
        text += f", corrected {format_fraction(found.corrected)}"
    return f"{text} [{format_fraction(found.low)}, {format_fraction(found.high)}]"


def event_lines(found: EventFound, metrics: Metrics) -> list[str]:
    """What is known about the probability of the event, the most important sentence first."""
    error, auroc = with_interval(metrics["event_ece"]), with_interval(metrics["auroc"])
    return [
        share_line(found.name, found.share),
        f"Event ECE {error}, AUROC {auroc}, calibration intercept {_signed(found.intercept)}.",
        *([] if math.isnan(found.slope.value) else [_slope_line(found)]),
    ]


def class_share_rows(classes: Sequence[ClassFound]) -> list[list[str]]:
    """Class, mean probability, frequency and how much too low or high; the largest gaps first."""
    known = [(each.name, each.share) for each in classes if each.share is not None]
    known.sort(key=lambda each: -abs(each[1].mean - each[1].frequency))
    return [[name, *_share_cells(share)] for name, share in known]


def group_share_rows(groups: Sequence[GroupFound]) -> list[list[str]]:
    """Group, samples, mean probability of the event, its frequency and how much too low or high."""
    return [
        [
            each.name,
            str(each.samples),
            *(("–", "–", "too few samples") if each.share is None else _share_cells(each.share)),
        ]
        for each in groups
    ]


def _share_cells(share: Share) -> list[str]:
    return [
        format_fraction(share.mean),
        with_interval(Measured(share.frequency, share.low, share.high)),
        by_how_much(share),
    ]


def _slope_line(found: EventFound) -> str:
    slope = found.slope
    line = f"Calibration slope {slope.value:.2f}"
    if math.isnan(slope.low):
        return f"{line}."
    line += f" [{slope.low:.2f}, {slope.high:.2f}]: "
    if slope.low > 1:
        return f"{line}the probabilities are not extreme enough."
    if slope.high < 1:
        return f"{line}the probabilities are too extreme."
    return f"{line}no difference from 1 beyond chance."


def _signed(found: Measured) -> str:
    if math.isnan(found.value):
        return "–"
    ends = "" if math.isnan(found.low) else f" [{found.low:+.2f}, {found.high:+.2f}]"
    return f"{found.value:+.2f}{ends}"
