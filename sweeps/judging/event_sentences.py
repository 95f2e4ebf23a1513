"""Sentences and table cells about the probability of the event, and of each class."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sweeps.judging.facts import ClassFound, EventFound, GroupFound, Measured, Metrics, Share
from sweeps.messages.formatting import format_fraction


def event_lines(found: EventFound, metrics: Metrics) -> list[str]:
    """What is known about the probability of the event, the most important sentence first."""
    return [
        share_line(found.name, found.share),
        f"Event ECE {_with_ends(metrics['event_ece'])}, AUROC {_with_ends(metrics['auroc'])}, "
        f"calibration intercept {_signed(found.intercept)}.",
        *([] if math.isnan(found.slope.value) else [_slope_line(found)]),
    ]


def share_line(name: str, share: Share) -> str:
    """``P(default) is 1.2 % on average, 2.6 % are default [2.25, 2.95]: too low by …``."""
    what = f"class {name}" if name.isdecimal() else name
    ends = "" if math.isnan(share.frequency.low) else f" [{_ends(share.frequency)}]"
    return (
        f"P({what}) is {percent(share.mean)} % on average, {percent(share.frequency.value)} % are "
        f"{what}{ends}{_verdict(share)}."
    )


def by_how_much(share: Share) -> str:
    """``too low by a factor of 2.2``, ``too high by 43 %``; empty if it may be chance."""
    if share.word == "neither":
        return ""
    mean, frequency = share.mean, share.frequency.value
    if min(mean, frequency) <= 0:
        return share.word
    ratio = mean / frequency
    if max(ratio, 1 / ratio) < 2:
        return f"{share.word} by {100 * abs(ratio - 1):.0f} %"
    return f"{share.word} by a factor of {max(ratio, 1 / ratio):.2g}"


def class_share_rows(classes: Sequence[ClassFound]) -> list[list[str]]:
    """Class, mean probability, frequency and how much too low or high; the largest gaps first."""
    known = [(each.name, each.share) for each in classes if each.share is not None]
    known.sort(key=lambda each: -abs(each[1].mean - each[1].frequency.value))
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


def percent(value: float, digits: int = 2) -> str:
    """A fraction in percent, with one decimal or two digits: ``1.2``, ``26.4``, ``0.034``."""
    if not 0 < value < 1:
        return f"{100 * value:.0f}"
    decimals = max(1, digits - 1 - math.floor(math.log10(100 * value)))
    return f"{100 * value:.{decimals}f}"


def _share_cells(share: Share) -> list[str]:
    return [
        format_fraction(share.mean),
        _with_ends(share.frequency),
        by_how_much(share),
    ]


def _verdict(share: Share) -> str:
    if math.isnan(share.frequency.low):
        return ""
    return f": {by_how_much(share) or 'no difference beyond chance'}"


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


def _ends(found: Measured) -> str:
    return f"{percent(found.low, 3)}, {percent(found.high, 3)}"


def _with_ends(found: Measured) -> str:
    value = format_fraction(found.value)
    if math.isnan(found.low):
        return value
    return f"{value} [{format_fraction(found.low)}, {format_fraction(found.high)}]"


def _signed(found: Measured) -> str:
    if math.isnan(found.value):
        return "–"
    ends = "" if math.isnan(found.low) else f" [{found.low:+.2f}, {found.high:+.2f}]"
    return f"{found.value:+.2f}{ends}"
