"""The report: gathers what the page shows and fills the template."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import re
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from sweeps.errors import first_line
from sweeps.evidence.scaling import AS_TRAINED, scaled_rows
from sweeps.messages.formatting import (
    counted,
    format_hyperparameters,
    format_loss,
    format_temperature,
    metric_heading,
)
from sweeps.messages.redaction import redact
from sweeps.messages.shares import by_how_much
from sweeps.pages import figures
from sweeps.pages.chart import Chart
from sweeps.pages.predictions import parts_of_error, probabilities, reliability_bins, top_label
from sweeps.pages.svg import svg
from sweeps.results.columns import legend, one_line, shown_metrics
from sweeps.results.documents import to_document
from sweeps.results.evidence import Evidence
from sweeps.results.explanation import evaluation_rows, failure_summary, result_of
from sweeps.results.headline import headline
from sweeps.results.importance import importances
from sweeps.results.recommendation import shown_network
from sweeps.results.refinement import refinement_rows
from sweeps.results.result import SweepResult
from sweeps.results.scaling import ScalingRow, scaling_of
from sweeps.results.side_by_side import Beside, best_by_loss
from sweeps.results.verdicts import Comparison, basis
from sweeps.search.plan import Plan
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from sweeps.sweep_file.loading import to_yaml
from trainables.contract.config import ScalingWay
from trainables.contract.metric_names import MetricName
from trainables.contract.setting import BASELINE_LOSS
from trainables.files.rows import ReadRows, Rows

logger = logging.getLogger("calsweep")

_FACTS = ("number", "role", "loss", "setting", "seed", "state", "epochs")
_MOST_IN_A_MATRIX = 15  # classes

_UNKNOWN = "not known: its file is missing"


@dataclass(frozen=True)
class Kept:
    """What a sweep has kept besides its trials.

    Attributes:
        environment: Its machine and packages; None if unknown.
        samples: Some samples of the test split, as text or as an image in a ``data:`` URI.
        skipped: Samples that cannot be used, one per line.
        classes: Names of the classes; unknown ones are numbered.
        labels: Names of the decisions on a sample, if there are several.
    """

    environment: Mapping[str, Any] | None = None
    samples: Mapping[int, str] = field(default_factory=dict)
    skipped: str = ""
    classes: Sequence[str] = ()
    labels: Sequence[str] = ()


def render_report(
    plan: Plan,
    records: Sequence[TrialRecord],
    evidence: Evidence,
    read: ReadRows,
    known: Kept = Kept(),
) -> str:
    """One HTML page that shows what a sweep found, finished or not."""
    ranking = Ranking(records, plan.rule)
    found = result_of(ranking, plan, evidence)
    sweep_yaml = to_yaml(plan.sweep.model_dump(mode="json"))
    tables = {
        "leaderboard": [_flat(row.to_json()) for row in found.rows],
        "trials": [
            {**_trial_facts(r), "reason": r.reason, **r.hyperparameters, **r.outcome}
            for r in records
        ],
        "verdicts": [to_document(each) for each in evidence.all_comparisons],
    }
    headings = shown_metrics(plan.rule.objective, rare=ranking.rare_class)
    metrics = {name: one_line(heading) for name, heading in headings.items()}
    predictions = _Predictions(read, ranking.rule.scaling, evidence.scalings)
    shown = shown_network(ranking, found.recommended)
    began = time.localtime(min((r.started for r in records), default=0))
    return page(
        "pages/report.html.j2",
        sweep=plan.sweep,
        objective=metric_heading(plan.rule.objective),
        states=Counter(record.state for record in records),
        records=records,
        when=time.strftime("%Y-%m-%d %H:%M", began),
        minutes=_minutes(records),
        headline=headline(ranking, found.recommended, evidence.ensemble) if records else None,
        kind=_kind(found),
        doubts=evidence.warnings,
        verdicts=_drawn_verdicts(evidence.all_comparisons),
        leading=_drawn_verdicts(found.leading_comparisons),
        basis=basis(evidence.all_comparisons),
        why=found.why if records else (),
        warnings=list(_warnings(ranking, known.environment)) if records else [],
        failures=failure_summary(records),
        found=found,
        by_how_much=by_how_much,
        refinement=refinement_rows(ranking),
        sets=evidence.all_sets,
        metrics=metrics,
        legend=legend(found.rows, found.objective),
        columns=[*_FACTS, *metrics.values(), "reason"],
        trials=[_trial_row(record, metrics) for record in records],
        diagrams=[Markup(drawn) for drawn in _diagrams(ranking, shown, predictions)],
        **_search_figures(ranking, plan),
        on_test=_on_test(ranking, shown, predictions, known),
        shown_samples=known.samples,
        skipped=known.skipped,
        skipped_counts=[each for each in known.skipped.splitlines() if each.endswith("skipped:")],
        evaluation_sets=evaluation_rows(ranking),
        sweep_yaml=sweep_yaml,
        downloads=_downloads(plan.name, tables, sweep_yaml),
        environment=_UNKNOWN
        if known.environment is None
        else json.dumps(known.environment, indent=1),
    )


def _search_figures(ranking: Ranking, plan: Plan) -> dict[str, object]:
    classifiers = [record for record in ranking.records if record.role != "encoder"]
    groups = figures.searched(classifiers, plan.rule.objective)
    return {
        "scatter": _svg(figures.error_against_objective(ranking)),
        "curves": _svg(figures.curves(classifiers, plan)),
        "multipliers": (chart := figures.multipliers(ranking)) and _svg(chart),
        "saved": figures.saved_by_stopping(classifiers, plan.epochs),
        "importances": importances(classifiers, plan),
        "slices": [_svg(figures.one_slice(group, plan.rule.objective)) for group in groups],
        "maps": [_svg(chart) for chart in figures.maps(groups, plan.rule.objective)],
    }


def _svg(chart: Chart) -> Markup:
    return Markup(svg(chart))


def _kind(found: SweepResult) -> str:
    """The class of the box of the recommendation, which decides its colour."""
    if found.recommended is None or found.warnings or found.evidence.better_reference:
        return "warnings"
    return "supported" if found.recommended.loss != BASELINE_LOSS else ""


def _downloads(
    name: str, tables: Mapping[str, Sequence[Mapping[str, Any]]], sweep_yaml: str
) -> list[dict[str, str]]:
    """The data of the page as files in links: tables as CSV, and the sweep file."""
    texts = {f"{name}-{key}.csv": _csv(rows) for key, rows in tables.items() if rows}
    return [
        {
            "name": file,
            "link": "data:text/plain;base64," + b64encode(redact(text).encode()).decode(),
        }
        for file, text in {**texts, f"{name}.yaml": sweep_yaml}.items()
    ]


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = dict.fromkeys(key for row in rows for key in row)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(row: Mapping[str, Any]) -> dict[str, object]:
    """A row of the leaderboard with a column for each hyperparameter."""
    others = {key: value for key, value in row.items() if key not in ("hyperparameters", "trials")}
    return {**others, **row["hyperparameters"]}


def _trial_facts(record: TrialRecord) -> dict[str, object]:
    return {key: getattr(record, key) for key in ("number", "role", "loss", "seed", "state")}


def _drawn_verdicts(found: Sequence[Comparison]) -> list[tuple[Comparison, Markup]]:
    return [(c, Markup(bar)) for c, bar in zip(found, figures.interval_bars(found), strict=True)]


def render_side_by_side(sweeps: Sequence[Beside]) -> str:
    on_test = figures.test_values(sweeps)
    return page(
        "pages/side_by_side.html.j2",
        sweeps=sweeps,
        by_loss=best_by_loss(sweeps),
        metrics=[metric_heading(each.sweep.objective) for each in sweeps],
        on_test=_svg(on_test) if on_test else "",
        figures=[_svg(chart) for chart in figures.across_sweeps(sweeps)],
    )


def page(template: str, **content: Any) -> str:
    """A page from the template at a path in this package."""
    templates = Environment(
        loader=PackageLoader("sweeps", "."), autoescape=True, undefined=StrictUndefined
    )
    templates.filters |= {
        "fraction": _fraction,
        "hyperparameters": format_hyperparameters,
        "loss": format_loss,
        "metric": metric_heading,
        "prose": _prose,
    }
    return redact(templates.get_template(template).render(content))


class _Predictions:
    """The predictions of trials on the test split; unreadable ones are reported once."""

    def __init__(
        self, read: ReadRows, way: ScalingWay, scalings: Sequence[ScalingRow] = ()
    ) -> None:
        self._read, self._way, self._scalings = read, way, scalings
        self._unreadable: set[int] = set()

    def of(self, record: TrialRecord) -> Rows | None:
        """A trial's predictions; None if it was stopped before making any, or they are damaged."""
        if record.number in self._unreadable:
            return None
        try:
            return self._read("test", record.number)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:  # pyarrow raises ValueErrors
            self._unreadable.add(record.number)
            logger.warning(
                "trial %d: predictions_test.parquet cannot be read (%s); the report is without its "
                "diagram",
                record.number,
                first_line(error),
            )
            return None

    def scaled(self, record: TrialRecord) -> Rows | None:
        """The same after the trial's scaling; a temperature does not need torch."""
        rows, known = self.of(record), scaling_of(self._scalings, record.number)
        if rows is None or known is None or known.is_temperature:
            return None if rows is None else rows.scaled(record.outcome["temperature"])
        try:
            return scaled_rows(self._read, record, self._way)
        except (OSError, ValueError):  # predictions on the validation split
            return None

    def words(self, record: TrialRecord) -> str:
        """Such as ``T = 1.35``."""
        known = scaling_of(self._scalings, record.number)
        return (
            f"T = {format_temperature(record.outcome['temperature'])}"
            if known is None
            else known.words
        )


def _diagrams(ranking: Ranking, shown: TrialRecord | None, predictions: _Predictions) -> list[str]:
    """Reliability diagrams of the best setting of each loss, the shown network's first."""
    from sweeps.pages.reliability import reliability_svg

    def place(candidate: Candidate) -> tuple[bool, bool, bool]:
        first = candidate.judged[0] != shown
        return first, candidate != ranking.chosen, candidate != ranking.baseline

    drawings = []
    for candidate in sorted(ranking.best_by_loss.values(), key=place):
        record = candidate.judged[0]
        views = {
            AS_TRAINED: predictions.of(record),
            predictions.words(record): predictions.scaled(record),
        }
        if known := {name: rows for name, rows in views.items() if rows is not None}:
            title = record.label + (" (selected)" if candidate == ranking.chosen else "")
            drawings.append(reliability_svg(known, title))
    return drawings


def _on_test(
    ranking: Ranking,
    shown: TrialRecord | None,
    predictions: _Predictions,
    kept: Kept,
) -> dict[str, object] | None:
    """The shown network on the test split, with its scaling; None without its predictions."""
    from sweeps.pages import held_out
    from sweeps.pages.event_diagram import event_of_rows

    rows = predictions.scaled(shown) if shown is not None else None
    if shown is None or rows is None:
        return None
    probs, labels = probabilities(rows.logits), rows.labels
    about, names = kept.labels, list(kept.classes)
    if len(names) != probs.shape[1]:
        names = [str(index) for index in range(probs.shape[1])]
    counts = held_out.confusion(probs, labels)
    curves = {shown.label: (probs, labels)}
    others = (each.judged[0] for each in (ranking.chosen, ranking.baseline) if each is not None)
    for other in others:
        theirs = predictions.scaled(other) if other != shown else None
        if theirs is not None:
            curves[other.label] = probabilities(theirs.logits), theirs.labels
    confidence, predicted = top_label(probs)
    by_class, by_label = held_out.by_class, held_out.by_label
    parts = by_label(probs, labels, about) if about else by_class(probs, labels, names)
    return {
        "event": Markup(event_of_rows(rows, kept.classes)),
        "label": shown.label,
        "scaling": predictions.words(shown),
        "samples": len(labels) // rows.per_sample,
        "pixels": rows.cluster_size,
        "independent": rows.independent,
        "about": list(about),
        "sure": float(confidence.mean()),
        "right": float((predicted == labels).mean()),
        "parts": None if about else parts_of_error(reliability_bins(probs, labels)),
        "classes": _svg(held_out.class_chart(parts)),
        "coverage": _svg(held_out.coverage_chart(curves)),
        "names": names,
        "matrix": counts if len(names) <= _MOST_IN_A_MATRIX else None,
        "pairs": held_out.confused_pairs(counts, names),
        "mistakes": held_out.mistakes(rows, names, about),
    }


def _warnings(ranking: Ranking, environment: Mapping[str, Any] | None) -> Iterator[str]:
    if failed := sum(record.state == "failed" for record in ranking.records):
        yield f"{counted(failed, 'trial')} failed; the reasons are below."
    if ranking.baseline is None:
        yield (
            "The cross-entropy baseline did not finish: the guard compares with the lowest "
            "validation error instead, and the selected setting has no verdict."
        )
    if (chosen := ranking.chosen) is not None:
        yield from _of_choice(chosen, ranking.rule.objective)
    if (environment or {}).get("resumed", ()):
        yield (
            "The sweep continued with other package versions than it was started with (see the "
            "environment below), which may change the results of trials."
        )


def _of_choice(chosen: Candidate, objective: str) -> Iterator[str]:
    if not chosen.seeds:
        yield (
            "The selected setting was trained with one seed. The best of many is partly luck: "
            "expect it to do worse when trained again."
        )
    if any(record.outcome.get("temperature_at_bound") for record in chosen.judged):
        yield (
            "The temperature of the selected setting is at a limit of its range: do not trust it."
        )
    perfect = chosen.mean(MetricName.parse(objective).with_statistic("calibrated_high"))
    if chosen.objective <= perfect:
        yield (
            f"There are too few validation samples to distinguish the selected setting "
            f"({objective} {chosen.objective:.4f}) from a perfectly calibrated model (up to "
            f"{perfect:.4f})."
        )


def _trial_row(record: TrialRecord, metrics: Iterable[str]) -> list[tuple[Any, str]]:
    values: dict[str, object] = {
        **record.outcome,
        **_trial_facts(record),
        "loss": format_loss(record.loss),
        "setting": format_hyperparameters(record.hyperparameters),
        "epochs": record.epochs,
        "reason": record.reason or "",
    }
    row = []
    for key in (*_FACTS, *metrics, "reason"):
        value = values.get(key, "")
        row.append((value, _fraction(value) if isinstance(value, float) else str(value)))
    return row


def _prose(text: str) -> Markup:
    """A sentence in HTML, with what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _fraction(value: float) -> str:
    return f"{value:.4f}" if not math.isnan(value) else "–"


def _minutes(records: Sequence[TrialRecord]) -> str:
    if not records:
        return "0"
    last = max(record.ended or record.started for record in records)
    return f"{(last - min(record.started for record in records)) / 60:.1f}"
