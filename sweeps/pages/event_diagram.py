"""The reliability diagram of the probability of an event."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.judging.event_bins import EventBins, event_bins, event_index
from sweeps.messages.shares import class_words
from sweeps.pages.chart import COLOURS, Axis, Chart, Mark, Stroke
from sweeps.pages.predictions import probabilities
from sweeps.pages.svg import svg
from trainables.files.rows import Rows

_RARE = 0.1  # below this mean probability, axes are logarithmic
_ROOM = 1.3  # of logarithmic axes, beyond the outermost values
_LEAST = 1e-6  # of a logarithmic axis
_IDEAL = Stroke("var(--dim,#667085)", 1.2, "4 3")
_SIZE = 360


def event_svg(name: str, bins: EventBins, title: str) -> str:
    """Frequency against mean probability in quantile bins, with 95% intervals of the frequency.

    Axes are logarithmic if the event is rare, so that small probabilities can be distinguished;
    frequencies of 0 are then at the border. `name` is that of the points in the legend.
    """
    low, high, log = _range(bins)
    x, y = Axis("mean probability", low, high, log), Axis("frequency", low, high, log)
    chart, mark = Chart(title, x, y, width=_SIZE + 40, height=_SIZE), Mark(COLOURS[0])
    chart.line((low, high), (low, high), _IDEAL, "calibrated")
    for mean, *ends in zip(bins.means, bins.lows, bins.highs, strict=False):
        chart.line((mean, mean), [*map(y.within, ends)], Stroke(COLOURS[0], 1.2))
    for count, mean, share in zip(bins.counts, bins.means, bins.frequencies, strict=True):
        tip = f"{name}: {count:,} samples, mean probability {mean:.4g}, frequency {share:.4g}"
        chart.point(mean, y.within(share), mark, tip)
    chart.name(mark, name)
    return svg(chart)


def event_of_rows(rows: Rows, classes: Sequence[str]) -> str:
    """The diagram of the rarer of two classes; empty with others, or several rows per sample."""
    if len(classes) != 2 or rows.logits.shape[1] != 2 or rows.per_sample > 1:
        return ""
    event = event_index(rows.labels)
    probs = probabilities(rows.logits)[:, event]
    bins = event_bins(probs, rows.labels == event, independent=rows.independent)
    return event_svg(name := f"P({class_words(classes[event])})", bins, name)


def _range(bins: EventBins) -> tuple[float, float, bool]:
    """Both ends of the axes, and whether they are logarithmic."""
    happened = sum(n * y for n, y in zip(bins.counts, bins.frequencies, strict=True))
    if happened / sum(bins.counts) >= _RARE:
        return 0.0, 1.0, False
    values = [each for each in (*bins.means, *bins.frequencies) if each > 0] or [_RARE]
    tops = [each for each in bins.highs if each < 1]
    return max(_LEAST, min(values) / _ROOM), min(1.0, max(*values, *tops, _RARE) * _ROOM), True
