"""The report: gathers what the page shows and fills the template."""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sweeps.errors import first_line
from sweeps.formatting import format_hyperparameters
from sweeps.redaction import redact
from sweeps.results import figures
from sweeps.results.columns import one_line, shown_metrics
from sweeps.results.comparison import Comparison
from sweeps.results.explanation import explain_choice, failure_summary
from sweeps.results.leaderboard import leaderboard
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.sweep_file.loading import dump_sweep
from sweeps.sweep_file.schema import SweepFile

logger = logging.getLogger("calsweep")

_FACTS = ("number", "role", "loss", "setting", "seed", "state", "epochs")

_UNKNOWN = "not known: the sweep was begun by a calsweep that did not keep it"


def render_report(
    sweep: SweepFile,
    records: Sequence[TrialRecord],
    comparisons: Sequence[Comparison],
    read_predictions: Callable[[int], bytes],
    environment: Mapping[str, Any] | None,
) -> str:
    """One HTML page that shows what a sweep found, finished or not.

    Args:
        sweep: The sweep.
        records: Its trials.
        comparisons: What its choice is worth, once it has ended.
        read_predictions: Gives a trial's predictions on the test split, a Parquet file's content;
            raises OSError where there are none.
        environment: What it ran on; None where that is not known.
    """
    ranking = Ranking(records, sweep.rule)
    metrics = {name: one_line(h) for name, h in shown_metrics(sweep.search.objective).items()}
    templates = Environment(
        loader=PackageLoader("sweeps.results", "."), autoescape=True, undefined=StrictUndefined
    )
    templates.filters["fraction"] = _fraction
    classifiers = [record for record in records if record.role != "encoder"]
    templates.filters["hyperparameters"] = format_hyperparameters
    page = templates.get_template("report.html.j2").render(
        sweep=sweep,
        states=Counter(record.state for record in records),
        records=records,
        when=time.strftime(
            "%Y-%m-%d %H:%M", time.localtime(min((r.started for r in records), default=0))
        ),
        minutes=_minutes(records),
        why=explain_choice(ranking, sweep.training.adapt_share, comparisons) if records else [],
        failures=failure_summary(records),
        rows=leaderboard(ranking),
        metrics=metrics,
        columns=[*_FACTS, *metrics.values()],
        trials=[_trial_row(record, metrics) for record in records],
        diagrams=[Markup(svg) for svg in _diagrams(ranking, read_predictions)],
        scatter=Markup(figures.error_against_objective(ranking)),
        curves=Markup(figures.curves(classifiers, sweep)),
        importances=figures.importances(classifiers, sweep),
        slices=[(label, Markup(svg)) for label, svg in figures.slices(classifiers, sweep)],
        sweep_yaml=dump_sweep(sweep),
        environment=_UNKNOWN if environment is None else json.dumps(environment, indent=1),
    )
    return redact(page)


def _diagrams(ranking: Ranking, read: Callable[[int], bytes]) -> list[str]:
    """Reliability diagrams of the best setting of each loss, the chosen one first."""
    from sweeps.results.reliability import reliability_svg
    from trainables.outcome import read_predictions

    drawings = []
    for loss in dict.fromkeys(candidate.loss for candidate in ranking.candidates):
        best = ranking.best_of(loss)
        assert best is not None
        record = best.judged[0]
        try:
            logits, labels = read_predictions(read(record.number))
        except FileNotFoundError:  # it was stopped before it made any
            continue
        except (OSError, ValueError, KeyError) as error:  # pyarrow's complaints are ValueErrors
            logger.warning(
                "trial %d: predictions_test.parquet cannot be read (%s); the report is without its "
                "diagram",
                record.number,
                first_line(error),
            )
            continue
        title = record.label + (" (chosen)" if best == ranking.chosen else "")
        drawings.append(reliability_svg(logits, labels, record.outcome["temperature"], title))
    return drawings


def _trial_row(record: TrialRecord, metrics: Iterable[str]) -> list[tuple[Any, str]]:
    """Per column what to sort by and what to show."""
    values: dict[str, Any] = {
        **record.outcome,
        "number": record.number,
        "role": record.role,
        "loss": record.loss.rpartition(":")[2],
        "setting": format_hyperparameters(record.hyperparameters),
        "seed": record.seed,
        "state": record.state,
        "epochs": record.epochs,
    }
    row = []
    for key in (*_FACTS, *metrics):
        value = values.get(key, "")
        row.append((value, _fraction(value) if isinstance(value, float) else str(value)))
    return row


def _fraction(value: float) -> str:
    return f"{value:.4f}" if not math.isnan(value) else "–"


def _minutes(records: Sequence[TrialRecord]) -> str:
    if not records:
        return "0"
    last = max(record.ended or record.started for record in records)
    return f"{(last - min(record.started for record in records)) / 60:.1f}"
