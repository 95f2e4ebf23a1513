"""Charts of trials' metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from statistics import fmean, stdev

from sweeps.messages.formatting import (
    format_fraction,
    format_hyperparameters,
    format_loss,
    metric_heading,
    objective_heading,
)
from sweeps.pages.chart import (
    COLOURS,
    GREY,
    Axis,
    Band,
    Chart,
    Mark,
    Note,
    Row,
    Stroke,
    Vertical,
    axis,
    marks,
)
from sweeps.results.importance import finished_searches
from sweeps.results.side_by_side import Beside
from sweeps.results.verdicts import Comparison
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import make_stopper

_BEYOND_GUARD = 3.0  # times the guard's limit is shown; a single trial must not spoil the scale
_FEWEST_IN_SLICE, _FEWEST_IN_MAP = 2, 6  # trials at least
_DASH_OF = {"min": "2 2", "mean": "", "max": "5 3"}
_DASHES = ("", "5 3", "2 2", "8 2 2 2")
_SEARCHED = Mark(COLOURS[0])
_PUBLISHED = Mark(COLOURS[1], "diamond", size=5.5)
_SHADES = ("#08306b", "#2171b5", "#6baed6", "#bdd7e7", "#eff3ff")  # the best fifth of trials first


def error_against_objective(ranking: Ranking) -> Chart:
    """The objective against the validation error: every trial, the guard, the Pareto front."""
    objective = ranking.rule.objective
    name = objective_heading(objective)
    shown = shown_trials(ranking)
    limit = None if ranking.reference is None else ranking.reference + ranking.rule.guard
    near = _near(shown, limit)
    errors = [r.outcome["val_error"] for r in near]
    chart = Chart(
        f"Validation {name} against validation error; hollow marks were stopped early",
        axis("validation error", errors if limit is None else [*errors, limit]),
        axis(f"validation {name}", [r.outcome[objective] for r in shown], log=True),
    )

    def draw(records: Iterable[TrialRecord], mark: Mark, what: str = "") -> None:
        for r in records:
            tip = what + _tip(r, objective)
            chart.point(r.outcome["val_error"], r.outcome[objective], mark, tip)

    if limit is not None:
        chart.add(Band(limit, chart.x.high), Vertical(limit, "guard"))
    if further := len(shown) - len(near):
        chart.add(Note(f"{further} further right"))
    front = Stroke(GREY, 1.2, "3 3")
    chart.line(*_staircase(pareto_front(ranking)), front)
    losses = dict.fromkeys(r.loss for r in ranking.records if r.role != "encoder")
    for loss, mark in marks(list(losses)).items():
        for state in ("stopped", "finished"):
            own = (r for r in near if (r.loss, r.state) == (loss, state))
            draw(own, replace(mark, hollow=state == "stopped"))
        chart.name(mark, format_loss(loss))
    if ranking.chosen is not None:
        ring = Mark("var(--ink,#222)", hollow=True, size=8)
        draw(ranking.chosen.trials, ring, "selected: ")
        chart.name(replace(ring, size=6), "selected")
    chart.name(front, "Pareto front")
    return chart


def shown_trials(ranking: Ranking) -> list[TrialRecord]:
    """The trials in the figure of the objective against the error: those that have both."""
    both = {ranking.rule.objective, "val_error"}
    return [
        r
        for r in ranking.records
        if r.state in ("finished", "stopped") and both <= r.outcome.keys() and r.role != "encoder"
    ]


def _near(shown: Sequence[TrialRecord], limit: float | None) -> list[TrialRecord]:
    """The trials without those whose large error would compress the scale."""
    if limit is None:
        return list(shown)
    most = max(_BEYOND_GUARD * limit, limit + 0.02)
    return [r for r in shown if r.outcome["val_error"] <= most]


def pareto_front(ranking: Ranking) -> list[tuple[float, float]]:
    """Error and objective of the finished trials that no trial beats in both, sorted by error."""
    points = sorted(
        (r.outcome["val_error"], r.outcome[ranking.rule.objective])
        for r in shown_trials(ranking)
        if r.state == "finished"
    )
    front: list[tuple[float, float]] = []
    for error, value in points:
        if not front or value < front[-1][1]:
            front.append((error, value))
    return front


def _staircase(front: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    errors, values = ([place[i] for place in front for _ in range(2)] for i in (0, 1))
    return errors[1:], values[:-1]


def curves(records: Sequence[TrialRecord], plan: Plan) -> Chart:
    """The scheduler's metric by epoch: stopped trials grey, rungs as dotted lines."""
    metric = plan.sweep.scheduler.metric
    heading = objective_heading(metric)
    drawn = [r for r in records if r.history and r.role != "encoder"]
    values = [entry.get(metric, math.nan) for r in drawn for entry in r.history]
    last = max((r.epochs for r in drawn), default=1)
    chart = Chart(
        f"Validation {heading} by epoch; grey: stopped early, dotted: where trials are compared",
        Axis("epoch", 0, float(max(last, 1))),
        axis(f"validation {heading}", values, log=True),
    )
    for rung in make_stopper(plan).rungs:
        chart.add(Vertical(rung, dash="1 3"))
    looks = {
        loss: Stroke(COLOURS[i % len(COLOURS)], 1.2, _DASHES[i // len(COLOURS) % len(_DASHES)])
        for i, loss in enumerate(dict.fromkeys(r.loss for r in drawn))
    }
    early = Stroke(GREY, 0.7)
    for r in sorted(drawn, key=lambda r: r.state == "finished"):
        stroke = looks[r.loss] if r.state == "finished" else early
        epochs = [entry["epoch"] for entry in r.history]
        own = [entry.get(metric, math.nan) for entry in r.history]
        chart.line(epochs, own, stroke, f"{r.label}: {r.state}")
    for loss, stroke in looks.items():
        chart.name(stroke, format_loss(loss))
    if any(r.state == "stopped" for r in drawn):
        chart.name(early, "stopped early")
    return chart


def multipliers(ranking: Ranking) -> Chart | None:
    """Class multipliers by epoch, as losses such as CALS have: least, mean and largest.

    Of the best setting of each loss; None if no loss has any. Liu et al. 2023 (CALS), figure 3b.
    """
    drawn = [
        trial
        for each in ranking.best_by_loss.values()
        if "multiplier_mean" in (trial := each.judged[0]).outcome
    ]
    if not drawn:
        return None
    of = {
        (trial.loss, name): [entry[f"multiplier_{name}"] for entry in trial.history]
        for trial in drawn
        for name in _DASH_OF
    }
    chart = Chart(
        "Class multipliers by epoch: least, mean (solid) and largest",
        Axis("epoch", 0, float(max(trial.epochs for trial in drawn))),
        axis("multiplier λ", [value for values in of.values() for value in values], log=True),
    )
    for i, trial in enumerate(drawn):
        for name, dash in _DASH_OF.items():
            chart.line(
                [entry["epoch"] for entry in trial.history],
                of[trial.loss, name],
                Stroke(COLOURS[i % len(COLOURS)], 1.2, dash),
                f"{trial.label}: {name}",
            )
        chart.name(Stroke(COLOURS[i % len(COLOURS)], 1.2), format_loss(trial.loss))
    return chart


def trade_off(ranking: Ranking, metric: str) -> Chart:
    """A metric of the test split against the ECE: the best setting of each loss.

    Means of its seeds with one standard deviation to each side; hollow marks are after a
    temperature. RefCal, figure 3.
    """
    names = [f"test_{name}{end}" for end in ("", "_scaled") for name in ("ece", metric)]
    of = {
        loss: [[t.outcome.get(name, math.nan) for t in each.judged] for name in names]
        for loss, each in ranking.best_by_loss.items()
    }
    ends = {loss: [_around(values) for values in each] for loss, each in of.items()}
    xs, ys = (
        [end for each in ends.values() for k in (i, i + 2) for end in each[k]] for i in (0, 1)
    )
    chart = Chart(
        f"{metric_heading(metric)} against ECE on the test split; hollow: after a temperature",
        axis("ECE", xs),
        axis(metric_heading(metric), ys),
    )
    for loss, mark in marks(list(of)).items():
        for first, look in ((0, mark), (2, replace(mark, hollow=True))):
            x, y = (fmean(values) for values in of[loss][first : first + 2])
            if math.isnan(x + y):
                continue
            tip = f"{format_loss(loss)}: ECE {format_fraction(x)}, {metric} {format_fraction(y)}"
            chart.point(x, y, look, tip)
            for bar in ((ends[loss][first], [y, y]), ([x, x], ends[loss][first + 1])):
                chart.line(*bar, Stroke(look.colour, 0.8))
        chart.name(mark, format_loss(loss))
    return chart


def _around(values: Sequence[float]) -> list[float]:
    """The mean less and plus one standard deviation."""
    mean = fmean(values)
    spread = stdev(values) if len(values) > 1 and not math.isnan(mean) else 0.0
    return [mean - spread, mean + spread]


def saved_by_stopping(records: Sequence[TrialRecord], full: int) -> str:
    """The epochs saved by early stopping, in words; a whole trial has `full` epochs."""
    ended = [r for r in records if r.state in ("finished", "stopped")]
    if not (stopped := [r for r in ended if r.state == "stopped"]):
        return "No trial was stopped early."
    spared = sum(full - r.epochs for r in stopped)
    whole = full * len(ended)
    return (
        f"{len(stopped)} of {len(ended)} trials were stopped early, which saved {spared:,} of "
        f"{whole:,} epochs ({spared / whole:.0%})."
    )


@dataclass(frozen=True)
class Searched:
    """The finished trials of the search with one loss that have a number for one hyperparameter."""

    loss: str
    name: str
    trials: tuple[TrialRecord, ...]

    def value(self, trial: TrialRecord) -> float:
        return float(trial.hyperparameters[self.name])


def searched(records: Iterable[TrialRecord], objective: str) -> list[Searched]:
    """The searched hyperparameters that have enough trials for a chart.

    Only completed trials count, because an early ECE does not predict a late one.
    """
    usable = finished_searches(records, objective)
    found = []
    for loss in dict.fromkeys(r.loss for r in usable):
        own = tuple(r for r in usable if r.loss == loss)
        for name in own[0].hyperparameters:
            values = [r.hyperparameters.get(name) for r in own]
            numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
            if numbers and len(own) >= _FEWEST_IN_SLICE and len(set(values)) > 1:
                found.append(Searched(loss, name, own))
    return found


def one_slice(group: Searched, objective: str) -> Chart:
    """The objective of the trials of one loss against one of its hyperparameters."""
    chart = Chart(
        f"{objective} against {group.name} of {group.loss}",
        _hyperparameter_axis(group, f"{format_loss(group.loss)}: {_symbol(group.name)}"),
        axis(objective_heading(objective), [r.outcome[objective] for r in group.trials]),
        width=300,
        height=200,
    )
    for r in sorted(group.trials, key=lambda r: r.role == "published"):
        mark = _PUBLISHED if r.role == "published" else _SEARCHED
        chart.point(group.value(r), r.outcome[objective], mark, _tip(r, objective))
    return chart


def maps(groups: Sequence[Searched], objective: str) -> list[Chart]:
    """The objective over the first two hyperparameters of each loss; darker is better."""
    drawn = []
    for loss in dict.fromkeys(group.loss for group in groups):
        own = [group for group in groups if group.loss == loss]
        if len(own) > 1 and len(own[0].trials) >= _FEWEST_IN_MAP:
            drawn.append(_map(own[0], own[1], objective))
    return drawn


def _map(across: Searched, up: Searched, objective: str) -> Chart:
    name = format_loss(across.loss)
    chart = Chart(
        f"{objective} over {across.name} and {up.name} of {across.loss}; darker is better",
        _hyperparameter_axis(across, f"{name}: {_symbol(across.name)}"),
        _hyperparameter_axis(up, _symbol(up.name)),
        width=300,
        height=220,
    )
    for record, shade in _shaded(across.trials, objective):
        shape = "diamond" if record.role == "published" else "circle"
        for mark in (Mark(shade, shape, size=6), Mark(GREY, shape, hollow=True, size=6)):
            chart.point(across.value(record), up.value(record), mark, _tip(record, objective))
    return chart


def _shaded(trials: Sequence[TrialRecord], objective: str) -> list[tuple[TrialRecord, str]]:
    """The trials, best first, each with the shade of its fifth."""
    ranked = sorted(trials, key=lambda r: r.outcome[objective])
    return [(r, _SHADES[len(_SHADES) * place // len(ranked)]) for place, r in enumerate(ranked)]


def test_values(sweeps: Sequence[Beside]) -> Chart | None:
    """A row per sweep: the metric on the test split of the selected setting and cross-entropy.

    The line is the 95% interval of the selected setting. Hollow marks are after temperature
    scaling. None if no sweep has selected a setting. Sweeps may have different metrics.
    """
    shown = [(each, chosen) for each in sweeps if (chosen := each.ranking.chosen) is not None]
    ends = [chosen.interval(each.metric) for each, chosen in shown]
    values = [end for both in ends for end in both] + [v for each, _ in shown for v in each.on_test]
    if all(map(math.isnan, values)):
        return None
    looks = [
        (f"{what} with T" if hollow else what, replace(mark, hollow=hollow))
        for what, mark in (("selected", _SEARCHED), ("cross_entropy", _PUBLISHED))
        for hollow in (False, True)
    ]
    metrics = dict.fromkeys(metric_heading(each.sweep.objective) for each in sweeps)
    chart = Chart(
        "The metric on the test split in each sweep",
        axis(f"{' and '.join(metrics)} on the test split", [0.0, *values]),
        Axis("", 0, len(shown) + 1, silent=True),
        height=110 + 34 * len(shown),
        left=150,
    )
    rows = reversed(list(zip(shown, ends, strict=True)))
    for height, ((each, _), both) in enumerate(rows, start=1):
        chart.add(Row(height, each.sweep.name))
        chart.line(both, [height] * 2, Stroke(COLOURS[0], 2))
        for (what, mark), value in zip(looks, each.on_test, strict=True):
            tip = f"{each.sweep.name}, {what}: {format_fraction(value)}"
            chart.point(value, height, mark, tip)
    for what, mark in looks:
        chart.name(mark, what)
    return chart


def across_sweeps(sweeps: Sequence[Beside]) -> list[Chart]:
    """A chart per hyperparameter, with a row per sweep: the values of its finished trials.

    Darker is better among the trials of the same sweep and loss; the best has a ring.
    """
    groups: dict[tuple[str, str], dict[int, Searched]] = {}
    for row, each in enumerate(sweeps):
        for group in searched(each.ranking.records, each.ranking.rule.objective):
            groups.setdefault((group.loss, group.name), {})[row] = group
    return [_across(rows, sweeps) for rows in groups.values() if len(rows) > 1]


def _across(rows: Mapping[int, Searched], sweeps: Sequence[Beside]) -> Chart:
    one = next(iter(rows.values()))
    together = replace(one, trials=tuple(t for group in rows.values() for t in group.trials))
    chart = Chart(
        f"{one.name} of {one.loss} in each sweep; darker is better, the best has a ring",
        _hyperparameter_axis(together, f"{format_loss(one.loss)}: {_symbol(one.name)}"),
        Axis("", 0, len(rows) + 1, silent=True),
        height=80 + 30 * len(rows),
        left=150,
    )
    for height, (row, group) in enumerate(sorted(rows.items(), reverse=True), start=1):
        objective = sweeps[row].ranking.rule.objective
        chart.add(Row(height, sweeps[row].sweep.name))
        ranked = _shaded(group.trials, objective)
        for record, shade in reversed(ranked):
            for mark in (Mark(shade, size=5), Mark(GREY, hollow=True, size=5)):
                chart.point(group.value(record), height, mark, _tip(record, objective))
        best = ranked[0][0]
        ring, tip = Mark(COLOURS[1], hollow=True, size=8), f"best: {_tip(best, objective)}"
        chart.point(group.value(best), height, ring, tip)
    return chart


def interval_bars(comparisons: Sequence[Comparison]) -> list[str]:
    """A small figure of each interval relative to 0; the same metric has the same scale."""
    furthest = {
        metric: max(abs(end) for c in comparisons if c.metric == metric for end in (c.low, c.high))
        for metric in {each.metric for each in comparisons}
    }
    return [_interval_bar(each, furthest[each.metric] or 1.0) for each in comparisons]


def _interval_bar(each: Comparison, furthest: float) -> str:
    width, height = 180, 18
    low, value, high = (
        round(width / 2 * (1 + 0.94 * end / furthest), 1)
        for end in (each.low, each.value, each.high)
    )
    middle = height / 2
    tip = f"{each.ours} less {each.theirs}: {each.difference}"
    return (
        f'<svg class="interval" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img">'
        f"<title>{escape(tip)}</title>"
        f'<path d="M{width / 2} 0V{height}" stroke="{GREY}"/>'
        f'<path d="M{low} {middle}H{high}" stroke="{COLOURS[0]}" stroke-width="3"/>'
        f'<circle cx="{value}" cy="{middle}" r="4.5" fill="{COLOURS[1]}"/></svg>'
    )


def _hyperparameter_axis(group: Searched, label: str) -> Axis:
    values = [group.value(trial) for trial in group.trials]
    return axis(label, values, log=min(values) > 0 and max(values) / min(values) > 20)


def _symbol(name: str) -> str:
    return format_hyperparameters({name: 0}).partition("=")[0]


def _tip(record: TrialRecord, objective: str) -> str:
    value, error = record.outcome[objective], record.outcome["val_error"]
    name = objective_heading(objective)
    return (
        f"{record.number}: {record.label}, {record.state} – {name} {format_fraction(value)}, "
        f"error {format_fraction(error)}"
    )
