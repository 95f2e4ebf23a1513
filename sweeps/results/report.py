"""Gather what the page shows, fill the template, write the file whole or not at all."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sweeps.errors import UserError
from sweeps.formatting import format_hyperparameters, run_name
from sweeps.redaction import redact
from sweeps.results import figures
from sweeps.results.leaderboard import explain_choice, failure_summary, leaderboard
from sweeps.search.ranking import candidates, choose
from sweeps.search.record import TrialRecord
from sweeps.store.environment import describe_environment
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import dump_sweep
from sweeps.sweep_file.schema import SweepFile

_COLUMNS = (
    ("#", "number"),
    ("role", "role"),
    ("loss", "loss"),
    ("setting", "setting"),
    ("seed", "seed"),
    ("state", "state"),
    ("epochs", "epochs"),
    ("val error", "val_error"),
    ("val ECE", "val_ece"),
    ("val NLL", "val_nll"),
    ("test error", "test_error"),
    ("test ECE", "test_ece"),
    ("ECE scaled", "test_ece_scaled"),
    ("T", "temperature"),
)


def write_report(name: str, storage: str, output: str | None = None) -> str:
    """Write the report of a sweep, finished or not.

    Args:
        name: Name of the sweep.
        storage: Path or URI of the sweep store.
        output: Path of the HTML file; ``<name>-report.html`` here if None.

    Returns:
        The path written.

    Raises:
        UserError: There is no such sweep, or the file cannot be written.
    """
    store = SweepStore(storage, name)
    sweep = store.load_sweep()
    path = Path(output or f"{name}-report.html").absolute()
    page = render(store, sweep, store.load_records())
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"--output {path}: cannot be written: {error.strerror}") from None
    return str(path)


def render(store: SweepStore, sweep: SweepFile, records: list[TrialRecord]) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("sweeps.results", "."), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["fraction"] = _fraction
    classifiers = [record for record in records if record.role != "encoder"]
    environment.filters["hyperparameters"] = format_hyperparameters
    page = environment.get_template("report.html.j2").render(
        sweep=sweep,
        store=store,
        states=Counter(record.state for record in records),
        records=records,
        when=time.strftime(
            "%Y-%m-%d %H:%M", time.localtime(min((r.started for r in records), default=0))
        ),
        minutes=_minutes(records),
        why=explain_choice(records, sweep) if records else [],
        failures=failure_summary(records),
        rows=leaderboard(records, sweep),
        columns=_COLUMNS,
        trials=[_trial_row(record) for record in records],
        diagrams=[Markup(svg) for svg in _diagrams(store, sweep, records)],
        scatter=Markup(figures.error_against_ece(classifiers, sweep)),
        curves=Markup(figures.curves(classifiers, sweep)),
        importances=figures.importances(classifiers, sweep),
        slices=[(label, Markup(svg)) for label, svg in figures.slices(classifiers, sweep)],
        sweep_yaml=dump_sweep(sweep),
        environment=json.dumps(describe_environment(), indent=1),
    )
    return redact(page)


def _diagrams(store: SweepStore, sweep: SweepFile, records: Sequence[TrialRecord]) -> list[str]:
    """Reliability diagrams of the best setting of each loss, the chosen one first."""
    from sweeps.results.reliability import reliability_svg
    from trainables.outcome import read_predictions

    drawings = []
    seen: set[str] = set()
    for candidate in candidates(records, sweep.rule):
        if candidate.loss in seen:
            continue
        seen.add(candidate.loss)
        record = candidate.judged[0]
        try:
            data = store.trial_folder(record.number).read("predictions_test.parquet")
        except OSError:
            continue
        logits, labels = read_predictions(data)
        chosen = choose(records, sweep.rule)
        mark = " (chosen)" if chosen is not None and chosen.loss == candidate.loss else ""
        title = run_name(record) + mark
        drawings.append(reliability_svg(logits, labels, record.outcome["temperature"], title))
    return drawings


def _trial_row(record: TrialRecord) -> list[tuple[Any, str]]:
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
    for _, key in _COLUMNS:
        value = values.get(key, "")
        row.append((value, _fraction(value) if isinstance(value, float) else str(value)))
    return row


def _fraction(value: float) -> str:
    return f"{value:.4f}" if value == value else "–"


def _minutes(records: Sequence[TrialRecord]) -> str:
    if not records:
        return "0"
    last = max(record.ended or record.started for record in records)
    return f"{(last - min(record.started for record in records)) / 60:.1f}"
