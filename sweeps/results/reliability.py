"""Reliability diagrams as SVG text: some milliseconds each, where a plotting library takes 100."""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrik  # scipy.stats takes a second to import

from sweeps.results.predictions import probabilities, reliability_bins
from trainables.predictions import Array

_SIZE = 240  # of a diagram's square, in pixels
_MARGIN = 44
_BAND = (0.025, 0.975)
_WHISKER = 0.008  # half the width of the line that spans what a calibrated model would give
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:var(--ink,#333)}"
    ".title{font-size:14px;font-weight:600}"
    ".accuracy{fill:#3b6fb6}.gap{fill:#d1495b;fill-opacity:.35;stroke:#d1495b;stroke-width:.6}"
    ".share{fill:none;stroke:#8a8f98}.axis{fill:none;stroke:var(--dim,#555)}"
    ".band{fill:var(--ink,#111)}.count{font-size:10px;text-anchor:end}"
    ".ideal{stroke:var(--dim,#222);stroke-dasharray:4 3}"
)


def reliability_svg(
    logits: npt.ArrayLike,
    labels: npt.ArrayLike,
    temperature: float,
    title: str,
    decisions: int = 1,
    cluster_size: int = 1,
) -> str:
    """Reliability diagrams before and after temperature scaling, side by side.

    Bars are the accuracy of 15 equal-width confidence bins, red is the gap to the mean confidence,
    the grey line the share of samples in each bin, and the numbers below how many they are. Within
    the black line lies the accuracy of a calibrated model's bin, with so many samples, in 95 of
    100 cases.

    Args:
        logits: (N, K) float.
        labels: (N,) integers.
        temperature: The fitted temperature.
        title: Heads the figure.
        decisions: How many rows a sample has, side by side, all of which are drawn as one; the ECE
            is the mean over what they are about.
        cluster_size: How many rows a sample has that are about the same, as an image has pixels:
            the black lines, which are those of independent rows, are then left out.
    """
    panels = [
        _panel(probabilities(logits, scale), labels, heading, index, decisions, cluster_size)
        for index, (scale, heading) in enumerate(
            [(1.0, "as trained"), (temperature, f"temperature {temperature:.2f}")]
        )
    ]
    width, height = 2 * (_SIZE + _MARGIN) + 30, _SIZE + 2 * _MARGIN + 36
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{escape(title)}</title>'
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="var(--paper,#fff)"/>'
        f'<text class="title" x="{_MARGIN}" y="22">{escape(title)} · test split</text>'
        f"{''.join(panels)}</svg>"
    )


def _panel(
    probs: Array,
    labels: npt.ArrayLike,
    heading: str,
    index: int,
    decisions: int,
    cluster_size: int,
) -> str:
    bins = reliability_bins(probs, labels)
    parts = [(probs[k::decisions], np.asarray(labels)[k::decisions]) for k in range(decisions)]
    error = fmean(reliability_bins(*part).calibration_error for part in parts)
    total = float(bins.count.sum())
    bars, share, counts = [], [], []
    columns = (bins.count, bins.confidence, bins.accuracy)
    for (lower, upper), count, confidence, accuracy in zip(
        pairwise(bins.edges.tolist()), *(column.tolist() for column in columns), strict=True
    ):
        share.append(f"{_x(lower)},{_y(count / total)} {_x(upper)},{_y(count / total)}")
        if count:
            low, high = sorted((confidence, accuracy))
            bars.append(_bar("accuracy", lower, upper, 0.0, accuracy))
            bars.append(_bar("gap", lower, upper, low, high))
            middle = (lower + upper) / 2
            if cluster_size == 1:
                few, many = (binomial_quantile(s, count, confidence) / count for s in _BAND)
                bars.append(_bar("band", middle - _WHISKER, middle + _WHISKER, few, many))
            # Upright: beside each other they would have to be too small to read.
            place = f"translate({_x(middle) + 3.5},{_SIZE + 38}) rotate(-90)"
            counts.append(f'<text class="count" transform="{place}">{_short(count)}</text>')
    left, top = _MARGIN + index * (_SIZE + _MARGIN), _MARGIN + 16
    ticks = "".join(
        f'<text x="{_x(t)}" y="{_SIZE + 16}" text-anchor="middle">{t:g}</text>'
        + (f'<text x="-6" y="{_y(t) + 4}" text-anchor="end">{t:g}</text>' if index == 0 else "")
        for t in (0.0, 0.5, 1.0)
    )
    return (
        f'<g transform="translate({left},{top})"><text x="0" y="-8">{heading}, ECE '
        f"{error:.4f}</text>"
        f"{''.join(bars)}"
        f'<polyline class="share" points="{" ".join(share)}"/>'
        f'<line class="ideal" x1="0" y1="{_SIZE}" x2="{_SIZE}" y2="0"/>'
        f'<rect class="axis" width="{_SIZE}" height="{_SIZE}"/>{ticks}'
        f'<text x="{_SIZE / 2}" y="{_SIZE + 32}" text-anchor="middle">confidence</text>'
        f"{''.join(counts)}</g>"
    )


def binomial_quantile(share: float, count: int, probability: float) -> int:
    """The fewest successes in so many trials that are not exceeded with at least this probability.

    Args:
        share: That probability, in (0, 1).
        count: Of the trials.
        probability: Of success in one, from 0; what is above 1 by rounding is 1.
    """
    if probability >= 1:
        return count
    if bdtr(0, count, probability) >= share:
        return 0
    found: int = math.ceil(bdtrik(share, count, probability))
    below = found - 1  # bdtrik rounds
    return below if bdtr(below, count, probability) >= share else found


def _bar(kind: str, lower: float, upper: float, low: float, high: float) -> str:
    width = f"{(upper - lower) * _SIZE - 1:.1f}"
    height = f"{(high - low) * _SIZE:.1f}"
    return (
        f'<rect class="{kind}" x="{_x(lower)}" y="{_y(high)}" width="{width}" height="{height}"/>'
    )


def _short(count: int) -> str:
    """A number in four characters: 12,345 is 12k."""
    if count < 10_000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.0f}M"


def _x(value: float) -> float:
    return round(value * _SIZE, 1)


def _y(value: float) -> float:
    return round((1 - value) * _SIZE, 1)
