"""Matplotlib figures that a notebook displays, without pyplot's global state."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sweeps.messages.formatting import format_loss
from sweeps.pages.figures import pareto_front, shown_trials
from sweeps.pages.predictions import Bin, reliability_panels
from sweeps.pages.svg import COLOURS, GREY
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import make_stopper
from trainables.files.rows import ReadRows, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The report's palette; there, the seventh is the page's text colour.
_COLOURS = tuple("#000000" if colour.startswith("var(") else colour for colour in COLOURS)
_MARKERS = ("o", "s", "^", "D")
_DASHES = dict(zip(_MARKERS, ("-", "--", "-.", ":"), strict=True))


FigureForm = Literal["pdf", "svg"]


class _Shown(Figure):
    def _repr_png_(self) -> bytes:
        """PNG for notebooks."""
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=120)
        return stream.getvalue()


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure, width and height in inches."""
    return _Shown(figsize=size, layout="constrained")


def figures_of(ranking: Ranking, plan: Plan, read: ReadRows, form: FigureForm) -> dict[str, bytes]:
    """The figures of a sweep as files, by name; texts stay texts, for papers.

    Raises FileNotFoundError or ValueError if the predictions are missing or damaged.
    """
    search, curves = new_figure((7.2, 3.8)), new_figure((7.2, 3.4))
    draw_search(search, ranking)
    draw_curves(curves, ranking.records, plan)
    drawn = {"search": search, "curves": curves}
    if ranking.chosen is not None:
        trial = ranking.chosen.judged[0]
        drawn["reliability"] = new_figure((7.2, 3.8))
        rows = read("test", trial.number)
        draw_reliability(drawn["reliability"], rows, trial.outcome["temperature"])
    return {name: _saved(figure, form) for name, figure in drawn.items()}


def _saved(figure: Figure, form: FigureForm) -> bytes:
    stream = io.BytesIO()
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure.savefig(stream, format=form)
    return stream.getvalue()


def draw_reliability(figure: Figure, rows: Rows, temperature: float) -> None:
    """Reliability diagrams, as trained and after temperature scaling, on an empty figure.

    A bar is the accuracy in one of 15 equal-width bins of confidence. The error bar is the 95%
    interval of this accuracy, drawn at the bin's mean confidence. A bin of fewer than five samples
    is hollow. Below is the share of samples.

    The decisions on a sample, one per label, are drawn together; the ECE is the mean over the
    labels. The error bars assume independent rows, so samples of similar rows, such as pixels, have
    none.
    """
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(4, 1))
    panels = reliability_panels(rows, temperature)
    for column, panel in enumerate(panels):
        _panel(axes[0, column], axes[1, column], panel.bins, rows.cluster_size == 1)
        axes[0, column].set_title(panel.heading, fontsize=10)
        axes[1, column].set_xlabel("confidence")
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("share")


def draw_search(figure: Figure, ranking: Ranking) -> None:
    """See :meth:`calsweep.Result.plot_search`; on an empty figure."""
    classifiers = [record for record in ranking.records if record.role != "encoder"]
    records, objective = shown_trials(ranking), ranking.rule.objective
    axis = figure.subplots()
    drawn: list[float] = []
    for loss, style in _styles(classifiers).items():
        for state, again, look in (
            ("finished", False, {"label": format_loss(loss)}),
            ("finished", True, {"markersize": 3}),
            ("stopped", False, {"fillstyle": "none"}),
        ):
            shown = [
                r.outcome
                for r in records
                if (r.loss, r.state, r.role == "finalist") == (loss, state, again)
            ]
            values = [outcome[objective] for outcome in shown]
            drawn += values
            axis.plot(
                [outcome["val_error"] for outcome in shown],
                values,
                linestyle="none",
                **style,
                **look,
            )
    if ranking.reference is not None:
        limit = ranking.reference + ranking.rule.guard
        axis.axvline(limit, color=GREY, linestyle="--", linewidth=1)
        place = ("data", "axes fraction")
        axis.annotate(" guard", (limit, 0.98), xycoords=place, va="top", color=GREY)
    front = np.array(pareto_front(ranking)).reshape(-1, 2)
    axis.step(*front.T, where="post", color=GREY, linestyle=":", label="Pareto front")
    axis.set(xlabel="validation error", ylabel=objective, yscale=_scale(drawn))
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)


def draw_curves(figure: Figure, records: Sequence[TrialRecord], plan: Plan) -> None:
    """See :meth:`calsweep.Result.plot_curves`; on an empty figure."""
    axis = figure.subplots()
    metric, styles = plan.sweep.scheduler.metric, _styles(records)
    drawn: list[float] = []
    for record in records:
        epochs = [entry["epoch"] for entry in record.history]
        values = [entry.get(metric, math.nan) for entry in record.history]
        drawn += values
        if record.state == "finished":
            style = styles[record.loss]
            look = {"color": style["color"], "linestyle": _DASHES[style["marker"]]}
            axis.plot(
                epochs, values, linewidth=1, alpha=0.8, label=format_loss(record.loss), **look
            )
        elif epochs:
            axis.plot(epochs, values, color=GREY, alpha=0.5, linewidth=0.8, zorder=1)
            axis.plot(epochs[-1], values[-1], "x", color=GREY, markersize=4, zorder=1)
    for rung in make_stopper(plan).rungs:
        axis.axvline(rung, color=GREY, linestyle=":", linewidth=1)
    axis.set(xlabel="epoch", ylabel=metric, yscale=_scale(drawn))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    lines, names = axis.get_legend_handles_labels()
    once = dict(zip(names, lines, strict=True))
    figure.legend(
        list(once.values()), list(once), loc="outside right upper", frameon=False, fontsize=9
    )


def _styles(records: Sequence[TrialRecord]) -> dict[str, dict[str, Any]]:
    losses = dict.fromkeys(record.loss for record in records)
    return {
        loss: {
            "color": _COLOURS[i % len(_COLOURS)],
            "marker": _MARKERS[i // len(_COLOURS) % len(_MARKERS)],
        }
        for i, loss in enumerate(losses)
    }


def _scale(values: Sequence[float]) -> str:
    """The axis scale: logarithmic if the values span more than a decade."""
    positive = [value for value in values if value > 0]
    return "log" if positive and max(positive) > 10 * min(positive) else "linear"


def _panel(upper: Axes, lower: Axes, bins: Sequence[Bin], independent: bool) -> None:
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
