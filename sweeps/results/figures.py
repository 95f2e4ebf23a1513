"""The report's figures, as inline SVG."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from sweeps.formatting import metric_heading
from sweeps.results.columns import objective_metric
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import make_stopper
from sweeps.sweep_file.schema import SweepFile

# Okabe and Ito's colours, which the colour-blind can tell apart, and two markers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
_MARKERS = ("o", "s", "^", "D")
_FEWEST_TRIALS = 5


def error_against_objective(ranking: Ranking) -> str:
    """The objective's metric against the validation error of every trial, and the guard's limit."""
    records = [record for record in ranking.records if record.role != "encoder"]
    objective = ranking.rule.objective
    metric = f"val_{objective_metric(objective)}" + "_scaled" * objective.endswith("_scaled")
    name = metric_heading(objective_metric(objective)) + " scaled" * metric.endswith("_scaled")
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axis = figure.subplots()
    for loss, style in _styles(records).items():
        for state, full in (("finished", True), ("stopped", False)):
            shown = [
                r for r in records if r.loss == loss and r.state == state and metric in r.outcome
            ]
            axis.plot(
                [r.outcome["val_error"] for r in shown],
                [r.outcome[metric] for r in shown],
                linestyle="none",
                fillstyle="full" if full else "none",
                label=loss.rpartition(":")[2] if full else None,
                **style,
            )
    if ranking.reference is not None:
        limit = ranking.reference + ranking.rule.guard
        axis.axvline(limit, color="#555", linestyle="--", linewidth=1)
        axis.annotate(
            " guard",
            (limit, 1),
            xycoords=("data", "axes fraction"),
            va="top",
            color="#555",
        )
    axis.set(xlabel="validation error", ylabel=f"validation {name}", yscale="log")
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    title = f"Validation {name} against validation error; hollow marks were stopped early"
    return _svg(figure, title)


def curves(records: Sequence[TrialRecord], sweep: SweepFile) -> str:
    """The scheduler's metric by epoch: stopped trials grey, rungs as vertical lines."""
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axis = figure.subplots()
    metric, styles = sweep.scheduler.metric, _styles(records)
    for record in records:
        epochs = [entry["epoch"] for entry in record.history]
        values = [entry.get(metric, math.nan) for entry in record.history]
        if record.state == "finished":
            axis.plot(epochs, values, color=styles[record.loss]["color"], linewidth=1, alpha=0.8)
        elif epochs:
            axis.plot(epochs, values, color="#bbb", linewidth=0.8, zorder=1)
            axis.plot(epochs[-1], values[-1], "x", color="#888", markersize=4, zorder=1)
    for rung in make_stopper(sweep).rungs:
        axis.axvline(rung, color="#555", linestyle=":", linewidth=1)
    axis.set(xlabel="epoch", ylabel=metric, yscale="log")
    return _svg(figure, f"{metric} by epoch; grey: stopped early, dotted: rungs")


def importances(records: Sequence[TrialRecord], sweep: SweepFile) -> list[dict[str, Any]]:
    """How strongly each hyperparameter goes with the objective: Spearman's rank correlation.

    Returns:
        Rows ``loss``, ``hyperparameter``, ``trials``, ``correlation`` (None where there are too
        few trials or values to tell).
    """
    rows = []
    for loss, name, values, objective in _searched(records, sweep):
        enough = len(values) >= _FEWEST_TRIALS and len(set(values)) > 2
        correlation = float(spearmanr(values, objective).statistic) if enough else None
        rows.append(
            {
                "loss": loss.rpartition(":")[2],
                "hyperparameter": name,
                "trials": len(values),
                "correlation": correlation,
            }
        )
    return sorted(rows, key=lambda row: -abs(row["correlation"] or 0.0))


def slices(records: Sequence[TrialRecord], sweep: SweepFile) -> list[tuple[str, str]]:
    """The objective against each hyperparameter of each loss, as small figures."""
    drawings = []
    for loss, name, values, objective in _searched(records, sweep):
        figure = Figure(figsize=(2.6, 2.0), layout="constrained")
        axis: Axes = figure.subplots()
        axis.plot(values, objective, "o", color=_COLOURS[0], markersize=4, alpha=0.8)
        positive = min(values) > 0 and max(values) / min(values) > 20
        axis.set(xlabel=name, xscale="log" if positive else "linear")
        axis.set_title(loss.rpartition(":")[2], fontsize=9)
        axis.tick_params(labelsize=7)
        label = f"{sweep.search.objective} against {name} of {loss}"
        drawings.append((label, _svg(figure, label)))
    return drawings


def _searched(
    records: Sequence[TrialRecord], sweep: SweepFile
) -> list[tuple[str, str, list[float], list[float]]]:
    """Per loss and numeric hyperparameter: its values and the objective, over trials that ended."""
    found = []
    usable = [
        r
        for r in records
        if r.state in ("finished", "stopped")
        and r.role != "finalist"
        and sweep.search.objective in r.outcome
    ]
    for loss in dict.fromkeys(r.loss for r in usable):
        own = [r for r in usable if r.loss == loss]
        for name in own[0].hyperparameters:
            values = [r.hyperparameters.get(name) for r in own]
            numbers = [float(v) for v in values if isinstance(v, int | float)]
            if len(numbers) == len(own) and len(set(numbers)) > 1:
                objective = [r.outcome[sweep.search.objective] for r in own]
                found.append((loss, name, numbers, objective))
    return found


def _styles(records: Sequence[TrialRecord]) -> dict[str, dict[str, Any]]:
    losses = dict.fromkeys(record.loss for record in records)
    return {
        loss: {
            "color": _COLOURS[i % len(_COLOURS)],
            "marker": _MARKERS[i // len(_COLOURS) % len(_MARKERS)],
            "markersize": 6,
        }
        for i, loss in enumerate(losses)
    }


def _svg(figure: Figure, title: str) -> str:
    """A figure as an SVG element with a title for those who cannot see it."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Title": title, "Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
