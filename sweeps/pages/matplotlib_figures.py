"""Charts as Matplotlib figures, for notebooks and papers, without pyplot's global state."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sweeps.evidence.scaling import reliability_views
from sweeps.pages import figures as charts
from sweeps.pages.chart import (
    COLOURS,
    GREY,
    Band,
    Chart,
    Line,
    Mark,
    Note,
    Part,
    Point,
    Row,
    Stroke,
    Vertical,
)
from sweeps.pages.predictions import NUM_BINS, Bin, reliability_panels
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from trainables.files.rows import ReadRows, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D"}
_ACROSS, _UP = ("data", "axes fraction"), ("axes fraction", "data")

FigureForm = Literal["pdf", "svg"]


class _Shown(Figure):
    def _repr_png_(self) -> bytes:
        """PNG for notebooks."""
        return _saved(self, "png")


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure, width and height in inches."""
    return _Shown(figsize=size, layout="constrained")


def figures_of(ranking: Ranking, plan: Plan, read: ReadRows, form: FigureForm) -> dict[str, bytes]:
    """The figures of a sweep as files, by name; texts stay texts, for papers.

    Raises FileNotFoundError or ValueError if the predictions are missing or damaged.
    """
    found = {
        "search": charts.error_against_objective(ranking),
        "curves": charts.curves(ranking.records, plan),
        "multipliers": charts.multipliers(ranking),
        "auroc_ece": charts.trade_off(ranking, "auroc"),
        "accuracy_ece": charts.trade_off(ranking, "accuracy"),
    }
    drawn = {name: new_figure((7.2, 3.6)) for name, chart in found.items() if chart is not None}
    for name, figure in drawn.items():
        if (chart := found[name]) is not None:
            draw(figure, chart)
    if ranking.chosen is not None:
        trial = ranking.chosen.judged[0]
        drawn["reliability"] = new_figure((7.2, 3.8))
        draw_reliability(drawn["reliability"], reliability_views(read, trial, ranking.rule.scaling))
    return {name: _saved(figure, form) for name, figure in drawn.items()}


def _saved(figure: Figure, form: FigureForm | Literal["png"]) -> bytes:
    stream = io.BytesIO()
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure.savefig(stream, format=form, dpi=120)
    return stream.getvalue()


def draw_reliability(figure: Figure, views: Mapping[str, Rows], num_bins: int = NUM_BINS) -> None:
    """Draw :func:`~sweeps.pages.reliability.reliability_svg` on an empty figure.

    Below are the shares of the samples.
    """
    axes = figure.subplots(
        2, len(views), sharex=True, sharey="row", height_ratios=(4, 1), squeeze=False
    )
    panels = reliability_panels(views, num_bins)
    for column, (panel, rows) in enumerate(zip(panels, views.values(), strict=True)):
        _panel(axes[0, column], axes[1, column], panel.bins, independent=rows.independent)
        axes[0, column].set_title(panel.heading, fontsize=10)
        axes[1, column].set_xlabel("confidence")
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("share")


def draw(figure: Figure, chart: Chart) -> None:
    """Print a chart on an empty figure, without the tips of its marks."""
    axes = figure.subplots()
    for part in chart.parts:
        _draw(axes, chart, part)
    for name, each in (("x", chart.x), ("y", chart.y)):
        axes.set(**{f"{name}label": each.label, f"{name}scale": "log" if each.log else "linear"})
        axes.set(**{f"{name}lim": (each.low, each.high)})
        if each.silent:
            axes.set(**{f"{name}ticks": []})
    signs = [_sign(look) for look, _ in chart.legend]
    names = [text for _, text in chart.legend]
    figure.legend(signs, names, loc="outside right upper", frameon=False, fontsize=9)


def _draw(axes: Axes, chart: Chart, part: Part) -> None:
    match part:
        case Point(x, y, mark):
            axes.plot(chart.x.within(x), chart.y.within(y), **_marked(mark))
        case Line(places, stroke):
            xs, ys = zip(*places, strict=True)
            axes.plot(xs, [chart.y.within(y) for y in ys], **_stroked(stroke))
        case Band(low, high):
            axes.axvspan(low, high, color=GREY, alpha=0.13, linewidth=0)
        case Vertical(x, label, dash):
            axes.axvline(x, **_stroked(Stroke(GREY, 1, dash)))
            axes.annotate(f" {label}", (x, 0.98), xycoords=_ACROSS, va="top", color=GREY)
        case Row(y, text):
            axes.annotate(f"{text} ", (0, y), xycoords=_UP, ha="right", va="center")
        case Note(text):
            axes.text(0.99, 0.98, text, transform=axes.transAxes, ha="right", va="top", color=GREY)


def _sign(look: Mark | Stroke) -> Line2D:
    return Line2D([], [], **_marked(look) if isinstance(look, Mark) else _stroked(look))


def _marked(mark: Mark) -> dict[str, Any]:
    return {
        "color": _plain(mark.colour),
        "linestyle": "none",
        "marker": _MARKERS[mark.shape],
        "markersize": 1.5 * mark.size,
        "fillstyle": "none" if mark.hollow else "full",
    }


def _stroked(stroke: Stroke) -> dict[str, Any]:
    dashes = tuple(map(float, stroke.dash.split()))
    return {
        "color": _plain(stroke.colour),
        "linestyle": (0, dashes) if dashes else "solid",
        "linewidth": stroke.width,
    }


def _plain(colour: str) -> str:
    """The colour outside a page, which may replace it: #222 of ``var(--ink,#222)``."""
    return colour.rpartition(",")[2].rstrip(")")


def _panel(upper: Axes, lower: Axes, bins: Sequence[Bin], *, independent: bool) -> None:
    total = sum(each.count for each in bins)
    for each in bins:
        shape: dict[str, Any] = {"width": 0.95 * (each.upper - each.lower), "align": "edge"}
        upper.bar(each.lower, each.accuracy, color=COLOURS[5], fill=not each.is_small, **shape)
        lower.bar(each.lower, each.count / total, color=GREY, **shape)
        if independent:
            ends = [[each.accuracy - each.low], [each.high - each.accuracy]]
            upper.errorbar(
                each.confidence, each.accuracy, ends, color="#111", linewidth=1.2, capsize=2
            )
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    upper.set(xlim=(0, 1), ylim=(0, 1))
