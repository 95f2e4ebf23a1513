"""Writes what people read about sweeps: tables, figures, pages.

All functions raise UserError if there is no such sweep or the storage cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.messages.files import write_bytes, write_text
from sweeps.service.reading.finding import read_sweep_with_trials, side_by_side
from sweeps.service.reading.stored import StoredSweep, load_evidence, sweeps_on_test_split
from sweeps.store.storage import tells_storage_faults
from sweeps.store.sweep_store import SweepStore

if TYPE_CHECKING:
    from sweeps.pages.matplotlib_figures import FigureForm
    from sweeps.pages.results_table import Value


@tells_storage_faults
def values_in_table(names: Sequence[str], storage: str, metrics: str) -> list[Value]:
    """The values for :func:`~sweeps.pages.results_table.results_table` of several sweeps.

    `metrics` are names such as ``ece_scaled``, with commas.

    Raises:
        UserError: There is no such sweep or metric, or its predictions are missing or damaged.
    """
    from sweeps.evidence.columns import Column
    from sweeps.pages.results_table import values_of  # they import NumPy

    asked = [Column.parse(name.strip()) for name in metrics.split(",")]
    values = []
    for each in side_by_side(list(dict.fromkeys(names)), storage):
        store = SweepStore(storage, each.sweep.name)
        read, sweeps = store.rows, sweeps_on_test_split(store)
        try:
            values += values_of(each, asked, read, sweeps)
        except (FileNotFoundError, ValueError) as error:
            raise UserError(
                f"sweep {store.name!r}: its predictions cannot be used: {error}"
            ) from None
    return values


def write_side_by_side(names: Sequence[str], storage: str, output: str | None = None) -> str:
    """Write a page that compares sweeps, by default ``comparison.html``; returns its path."""
    from sweeps.pages.report import render_side_by_side

    return write_text(
        render_side_by_side(side_by_side(names, storage)), output or "comparison.html"
    )


@tells_storage_faults
def write_figures(
    name: str, storage: str, form: FigureForm, output: str | None = None
) -> list[str]:
    """Write a sweep's figures into a folder, by default ``<name>-figures``; returns their paths.

    They are the reliability diagrams of the selected setting, the search, and the curves. Without a
    selected setting there are no reliability diagrams.

    Raises:
        UserError: There is no such sweep, it has no trial yet, its predictions are missing or
            damaged, or the files cannot be written.
    """
    from sweeps.pages.matplotlib_figures import figures_of  # matplotlib takes a second

    sweep = read_sweep_with_trials(name, storage)
    try:
        found = figures_of(sweep.ranking, sweep.plan, sweep.store.rows, form)
    except (FileNotFoundError, ValueError) as error:
        raise UserError(f"sweep {name!r}: its predictions cannot be used: {error}") from None
    folder = Path(output or f"{name}-figures")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from None
    return [write_bytes(data, str(folder / f"{kind}.{form}")) for kind, data in found.items()]


@tells_storage_faults
def write_report(name: str, storage: str, output: str | None = None) -> str:
    """Write the report of a sweep, by default ``<name>-report.html``; returns its path."""
    sweep = StoredSweep.read(name, storage)
    return write_text(sweep.report(load_evidence(sweep.store)), output or f"{name}-report.html")
