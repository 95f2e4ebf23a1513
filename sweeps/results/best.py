"""``calsweep best``: the best hyperparameters per dataset and model, over all sweeps in MLflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from sweeps.errors import UserError
from sweeps.formatting import format_fraction, format_hyperparameters
from sweeps.search.ranking import Candidate, Rule, choose
from sweeps.sweep_file.loading import to_yaml
from sweeps.tracking.reader import TrackedSweep, read_sweep_file

_METRICS = ("error", "ece", "nll", "brier", "adaptive_ece", "classwise_ece", "auroc", "aurc")


def best_settings(sweeps: Sequence[TrackedSweep]) -> list[dict[str, Any]]:
    """The chosen setting of each dataset and model.

    Each sweep chooses by its own rule, against its own baseline; among the sweeps of one dataset
    and model, a setting judged by more new seeds comes first, then the lower objective.

    Args:
        sweeps: What MLflow has.

    Returns:
        One entry per dataset and model: ``dataset``, ``model``, ``sweep``, ``loss``,
        ``hyperparameters``, ``seed`` and ``run_id`` (of the search's trial), ``seeds`` (new seeds
        it was judged by), ``val`` and ``test`` (means over them, with ``ece_low`` and
        ``ece_high``, and ``ece_scaled``), ``temperature``.
    """
    found: dict[tuple[str, str], tuple[TrackedSweep, Candidate]] = {}
    for sweep in sweeps:
        chosen = choose(sweep.records, Rule(sweep.objective, sweep.guard))
        if chosen is None:
            continue
        key = (sweep.dataset, sweep.model)
        if key not in found or _rank(chosen) < _rank(found[key][1]):
            found[key] = (sweep, chosen)
    return [_entry(*found[key]) for key in sorted(found)]


def best_table(entries: Sequence[dict[str, Any]]) -> Table:
    """The entries for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("dataset", "model", "loss", "setting"):
        table.add_column(heading, overflow="fold", min_width=8 if heading == "loss" else None)
    for heading in ("val\nECE", "95%\ninterval", "val\nerror", "test\nECE", "test\nerror"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("\nT", justify="right", no_wrap=True)
    for entry in entries:
        val, test = entry["val"], entry["test"]
        table.add_row(
            entry["dataset"],
            entry["model"],
            entry["loss"],
            format_hyperparameters(entry["hyperparameters"]),
            format_fraction(val["ece"]),
            f"{format_fraction(val['ece_low'])}–{format_fraction(val['ece_high'])}",
            format_fraction(val["error"]),
            format_fraction(test["ece"]),
            format_fraction(test["error"]),
            f"{entry['temperature']:.2f}",
        )
    return table


def render_best(entries: Sequence[dict[str, Any]], form: str, uri: str) -> None:
    """Print the entries as ``table``, ``json`` or ``yaml``: a sweep file that trains just that one.

    Raises:
        UserError: A sweep file is wanted of several entries.
    """
    if form == "json":
        print(json.dumps(list(entries), indent=2, ensure_ascii=False))
    elif form == "yaml":
        print(_yaml(_only(entries), uri), end="")
    else:
        Console(highlight=False).print(best_table(entries))


def _only(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if len(entries) > 1:
        listed = "\n".join(f"  --dataset {e['dataset']} --model {e['model']}" for e in entries)
        raise UserError(
            f"--format yaml writes one sweep file, and there are {len(entries)} answers; "
            f"choose one by --dataset and --model:\n{listed}"
        )
    return entries[0]


def _yaml(entry: dict[str, Any], uri: str) -> str:
    resolved = YAML(typ="safe", pure=True).load(read_sweep_file(uri, entry["parent_run_id"]))
    title = (
        f"# {entry['loss']} {format_hyperparameters(entry['hyperparameters'])} on "
        f"{entry['dataset']}: val ECE {entry['val']['ece']:.4f}, test ECE "
        f"{entry['test']['ece']:.4f}, temperature {entry['temperature']:.2f}\n"
    )
    return title + to_yaml(as_sweep_file(entry, resolved))


def as_sweep_file(entry: dict[str, Any], resolved: dict[str, Any]) -> dict[str, Any]:
    """A sweep file that trains just one setting, with the recipe of the sweep that found it.

    Args:
        entry: Of :func:`best_settings`.
        resolved: That sweep's resolved sweep file.
    """
    return {
        "name": f"{resolved['name'][:95]}-best",  # names have at most 100 characters
        **{key: resolved[key] for key in ("dataset", "model")},
        "losses": [{"name": entry["loss"], "hyperparameters": entry["hyperparameters"]}],
        **{key: resolved[key] for key in ("encoder", "training") if key in resolved},
        "search": {
            **resolved["search"],
            "trials": 1 if entry["loss"] == "cross_entropy" else 2,
            "warm_start": [],  # there is nothing to search
        },
        "scheduler": {"name": "none"},
        "scaling": resolved["scaling"],
        "tracking": resolved["tracking"],
        "selection": {"finalists": 0, "seeds": 0},
    }


def _rank(candidate: Candidate) -> tuple[float, float]:
    again = len(candidate.judged) if candidate.judged[0].role == "finalist" else 0
    return -again, candidate.objective


def _entry(sweep: TrackedSweep, chosen: Candidate) -> dict[str, Any]:
    trial = chosen.trials[0]
    again = len(chosen.judged) if chosen.judged[0].role == "finalist" else 0
    return {
        "dataset": sweep.dataset,
        "model": sweep.model,
        "sweep": sweep.name,
        "loss": chosen.loss,
        "hyperparameters": trial.hyperparameters,
        "seed": trial.seed,
        "run_id": sweep.run_ids[trial.number],
        "seeds": again,
        "val": _split(chosen, "val"),
        "test": _split(chosen, "test"),
        "temperature": chosen.mean("temperature"),
        "parent_run_id": sweep.parent_id,
    }


def _split(chosen: Candidate, split: str) -> dict[str, float]:
    names = (*_METRICS, "ece_low", "ece_high", "ece_scaled", "nll_scaled")
    values = {name: chosen.mean(f"{split}_{name}") for name in names}
    return {name: value for name, value in values.items() if value == value}
