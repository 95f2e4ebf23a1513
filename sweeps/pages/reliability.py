"""Reliability diagrams as SVG text: a few milliseconds each; a plotting library takes 100."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from sweeps.pages.chart import COLOURS
from sweeps.pages.predictions import Bin, Panel, reliability_panels
from trainables.files.rows import Rows

_SIZE = 240  # pixels, side of a panel
_LEFT, _TOP, _GAP, _COUNTS = 52, 62, 28, 62  # pixels around the panels
_CAP = 3  # pixels, half the width of an error bar's ends
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:var(--ink,#333)}"
    ".title{font-size:14px;font-weight:600}.dim{fill:var(--dim,#555)}"
    f".accuracy{{fill:{COLOURS[5]}}}.small{{fill:none;stroke:{COLOURS[5]}}}.axis{{fill:none;stroke:var(--dim,#555)}}"
    ".interval{fill:none;stroke:var(--ink,#111);stroke-width:1.3}"
    ".count{font-size:10px;text-anchor:end;fill:var(--dim,#555)}"
    ".ideal{stroke:var(--dim,#555);stroke-dasharray:4 3}"
)


def reliability_svg(views: Mapping[str, Rows], title: str) -> str:
    """Reliability diagrams next to each other, such as before and after scaling.

    A bar is the accuracy in one of 15 equal-width bins of confidence. The error bar is the 95%
    interval of this accuracy, drawn at the bin's mean confidence: where it crosses the diagonal,
    the bin shows no significant miscalibration. A bin of fewer than five samples is hollow. Below
    are the numbers of samples.

    Args:
        views: Predictions by heading. The ECE is the mean over the decisions of a sample. Error
            bars assume independent rows, so they are left out if a sample has similar ones, such as
            pixels.
        title: Title of the figure.
    """
    found, independent = reliability_panels(views), all(each.independent for each in views.values())
    panels = [_panel(panel, index, independent=independent) for index, panel in enumerate(found)]
    width, height = _LEFT + len(found) * (_SIZE + _GAP) - _GAP + 12, _TOP + _SIZE + _COUNTS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" style="--width:{width}px" role="img">'
        f"<title>{escape(title)}</title>"
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="var(--paper,#fff)"/>'
        f'<text class="title" x="{_LEFT}" y="22">{escape(title)}</text>'
        f'<text class="dim" transform="translate(14,{_TOP + _SIZE / 2}) rotate(-90)" '
        'text-anchor="middle">accuracy</text>'
        f"{''.join(panels)}</svg>"
    )


def _panel(panel: Panel, index: int, *, independent: bool) -> str:
    bins = panel.bins
    ticks = "".join(
        f'<text x="{_x(t)}" y="{_SIZE + 16}" text-anchor="middle">{t:g}</text>'
        + (f'<text x="-6" y="{_y(t) + 4}" text-anchor="end">{t:g}</text>' if index == 0 else "")
        for t in (0.0, 0.5, 1.0)
    )
    return (
        f'<g transform="translate({_LEFT + index * (_SIZE + _GAP)},{_TOP})">'
        f'<text x="0" y="-8">{panel.heading}</text>'
        f"{''.join(_bar(each) for each in bins)}"
        f'<line class="ideal" x1="0" y1="{_SIZE}" x2="{_SIZE}" y2="0"/>'
        f"{''.join(_interval(each) for each in bins) if independent else ''}"
        f'<rect class="axis" width="{_SIZE}" height="{_SIZE}"/>{ticks}'
        f'<text class="dim" x="{_SIZE / 2}" y="{_SIZE + 30}" text-anchor="middle">confidence</text>'
        f"{''.join(_count(each) for each in bins)}</g>"
    )


def _bar(each: Bin) -> str:
    width, height = (each.upper - each.lower) * _SIZE - 1, each.accuracy * _SIZE
    kind = "accuracy small" if each.is_small else "accuracy"
    return (
        f'<rect class="{kind}" x="{_x(each.lower)}" y="{_y(each.accuracy)}" width="{width:.1f}" '
        f'height="{height:.1f}"/>'
    )


def _interval(each: Bin) -> str:
    x, low, high = _x(each.confidence), _y(each.low), _y(each.high)
    ends = f"M{x - _CAP:.1f} {low}h{2 * _CAP}M{x - _CAP:.1f} {high}h{2 * _CAP}"
    return f'<path class="interval" d="M{x} {low}V{high}{ends}"/>'


def _count(each: Bin) -> str:
    """The number of samples below its bin, rotated: horizontal numbers would be too small."""
    place = f"translate({_x((each.lower + each.upper) / 2) + 3.5},{_SIZE + 38}) rotate(-90)"
    return f'<text class="count" transform="{place}">{_short(each.count)}</text>'


def _short(count: float) -> str:
    """A number in four characters: 12,345 is 12k."""
    if count < 10_000:
        return f"{count:.0f}"
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1e6:.0f}M"


def _x(value: float) -> float:
    return round(value * _SIZE, 1)


def _y(value: float) -> float:
    return round((1 - value) * _SIZE, 1)
