"""The reliability diagram of the probability of an event."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.judging.event_bins import EventBins
from sweeps.pages.chart import COLOURS, Axis, Chart, Mark, Stroke
from sweeps.pages.svg import svg

_RARE = 0.1  # below this mean probability, axes are logarithmic
_ROOM = 1.3  # of logarithmic axes, beyond the outermost values
_LEAST = 1e-6  # of a logarithmic axis
_IDEAL = Stroke("var(--dim,#667085)", 1.2, "4 3")
_SIZE = 360


def event_svg(found: Sequence[tuple[str, EventBins]], title: str) -> str:
    """Frequency against mean probability in quantile bins, with 95% intervals of the frequency.

    One series for each name and its bins, the first one filled. Axes are logarithmic if the event
    is rare, so that small probabilities can be distinguished; frequencies of 0 are then at the
    border.
    """
    chart = Chart(title, *_axes([bins for _, bins in found]), width=_SIZE + 40, height=_SIZE)
    ends = chart.x.low, chart.x.high
    chart.line(ends, ends, _IDEAL, "calibrated")
    for index, (name, bins) in enumerate(found):
        mark = Mark(COLOURS[index], hollow=index > 0)
        for mean, low, high in zip(bins.means, bins.lows, bins.highs, strict=False):
            within = chart.y.within(low), chart.y.within(high)
            chart.line((mean, mean), within, Stroke(COLOURS[index], 1.2))
        shown = [chart.y.within(each) for each in bins.frequencies]
        tips = [
            f"{name}: {count:,} samples, mean probability {mean:.4g}, frequency {share:.4g}"
            for count, mean, share in zip(bins.counts, bins.means, bins.frequencies, strict=True)
        ]
        chart.points(bins.means, shown, mark, tips)
        chart.name(mark, name)
    return svg(chart)


def _axes(found: Sequence[EventBins]) -> tuple[Axis, Axis]:
    labels = "mean probability", "frequency"
    samples, first = sum(found[0].counts), found[0]
    happened = sum(n * y for n, y in zip(first.counts, first.frequencies, strict=True))
    if happened / samples >= _RARE:
        return Axis(labels[0], 0.0, 1.0), Axis(labels[1], 0.0, 1.0)
    values = [
        value for each in found for value in (*each.means, *each.frequencies) if value > 0
    ] or [_RARE]
    tops = [high for each in found for high in each.highs if high < 1]
    low = max(_LEAST, min(values) / _ROOM)
    high = min(1.0, max(*values, *tops, _RARE) * _ROOM)
    return Axis(labels[0], low, high, log=True), Axis(labels[1], low, high, log=True)
