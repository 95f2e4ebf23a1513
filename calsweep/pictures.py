"""Figures that show themselves in a notebook, without pyplot's state."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sweeps.formatting import format_loss
from sweeps.results.reliability import binomial_quantile
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import make_stopper
from sweeps.sweep_file.schema import SweepFile
from trainables.metrics import reliability_bins
from trainables.outcome import evaluate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

_BLUE, _RED, _GREY = "#56B4E9", "#D55E00", "#8a8f98"
# Okabe and Ito's colours, which the colour-blind can tell apart, and four markers or dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
_MARKERS = ("o", "s", "^", "D")
_DASHES = dict(zip(_MARKERS, ("-", "--", "-.", ":"), strict=True))


class _Shown(Figure):
    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=120)
        return stream.getvalue()


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure, width and height in inches."""
    return _Shown(figsize=size, layout="constrained")


def draw_reliability(
    figure: Figure,
    logits: Tensor,
    labels: Tensor,
    temperature: float,
    decisions: int = 1,
    cluster_size: int = 1,
) -> None:
    """Reliability diagrams, as trained and after temperature scaling, on one figure.

    Bars are the accuracy of 15 equal-width bins of confidence, the hatched part is the gap to the
    mean confidence, the line in each bin spans what a calibrated model would show there in 95 of
    100 cases, and below is the share of samples in each bin.

    Args:
        figure: An empty one.
        logits: (N, K) float.
        labels: (N,) int64.
        temperature: The fitted temperature.
        decisions: How many rows a sample has, side by side, all of which are drawn as one; the ECE
            is the mean over what they are about.
        cluster_size: How many rows a sample has that are about the same, as an image has pixels:
            there are no such lines then, which are those of independent rows.
    """
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(4, 1))
    for column, (scale, heading) in enumerate(
        [(1.0, "as trained"), (temperature, f"temperature {temperature:.2f}")]
    ):
        probs = (logits.double() / scale).softmax(dim=1)
        _panel(axes[0, column], axes[1, column], probs, labels, cluster_size == 1)
        ece = evaluate(logits.double() / scale, labels, ["ece"], decisions)["ece"]
        axes[0, column].set_title(f"{heading}, ECE {ece:.4f}", fontsize=10)
        axes[1, column].set_xlabel("confidence")
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("share")


def draw_search(figure: Figure, ranking: Ranking) -> None:
    """The objective against the validation error of every trial, and the guard's limit.

    The limit is that of the search. Small marks are settings that were trained again, which are
    held to the baseline's own new seeds.

    Args:
        figure: An empty one.
        ranking: Of the sweep.
    """
    records = [record for record in ranking.records if record.role != "encoder"]
    objective = ranking.rule.objective
    axis = figure.subplots()
    drawn: list[float] = []
    for loss, style in _styles(records).items():
        for state, again, look in (
            ("finished", False, {"label": format_loss(loss)}),
            ("finished", True, {"markersize": 3}),
            ("stopped", False, {"fillstyle": "none"}),
        ):
            shown = [
                r.outcome
                for r in records
                if (r.loss, r.state, r.role == "finalist") == (loss, state, again)
                and objective in r.outcome
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
        axis.axvline(limit, color="#555", linestyle="--", linewidth=1)
        place = ("data", "axes fraction")
        axis.annotate(" guard", (limit, 0.98), xycoords=place, va="top", color="#555")
    axis.set(xlabel="validation error", ylabel=objective, yscale=_scale(drawn))
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)


def draw_curves(figure: Figure, records: Sequence[TrialRecord], sweep: SweepFile) -> None:
    """The scheduler's metric by epoch: stopped trials grey, rungs as dotted lines.

    Args:
        figure: An empty one.
        records: The sweep's trials.
        sweep: The sweep.
    """
    axis = figure.subplots()
    metric, styles = sweep.scheduler.metric, _styles(records)
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
            axis.plot(epochs, values, color="#bbb", linewidth=0.8, zorder=1)
            axis.plot(epochs[-1], values[-1], "x", color="#888", markersize=4, zorder=1)
    for rung in make_stopper(sweep).rungs:
        axis.axvline(rung, color="#555", linestyle=":", linewidth=1)
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
    """Logarithmic over more than a decade; within one its ticks say little."""
    positive = [value for value in values if value > 0]
    return "log" if positive and max(positive) > 10 * min(positive) else "linear"


def _panel(upper: Axes, lower: Axes, probs: Tensor, labels: Tensor, independent: bool) -> None:
    bins = reliability_bins(probs, labels)
    width = float(bins.upper[0] - bins.lower[0])
    for left, count, confidence, accuracy in zip(
        bins.lower.tolist(),
        bins.count.tolist(),
        bins.confidence.tolist(),
        bins.accuracy.tolist(),
        strict=True,
    ):
        if not count:
            continue
        low, high = sorted((confidence, accuracy))
        upper.bar(left, accuracy, width * 0.95, align="edge", color=_BLUE)
        gap: dict[str, Any] = {
            "facecolor": "none",
            "edgecolor": _RED,
            "hatch": "////",
            "linewidth": 1,
        }
        upper.bar(left, high - low, width * 0.95, low, align="edge", **gap)
        if independent:
            ends = (binomial_quantile(s, int(count), confidence) / count for s in (0.025, 0.975))
            upper.plot([left + width / 2] * 2, list(ends), color="#111", linewidth=1.5)
        lower.bar(left, count / len(labels), width * 0.95, align="edge", color=_GREY)
    upper.plot([0, 1], [0, 1], color="#222", linestyle="--", linewidth=1)
    upper.set(xlim=(0, 1), ylim=(0, 1))
