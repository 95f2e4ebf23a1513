"""The names available in a sweep file: losses, metrics, datasets and models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from rich.table import Table

from sweeps.messages.formatting import format_value, markdown_table
from sweeps.terminal.console import new_table


def losses_rows() -> list[dict[str, str]]:
    """One row per loss: ``loss``, ``formula``, ``hyperparameters``, ``search``, ``source``."""
    from trainables.losses import available_losses

    return [_loss_row(name) for name in available_losses()]


def _loss_row(name: str) -> dict[str, str]:
    from trainables.losses import hyperparameters, loss_class

    row = {"loss": name, "formula": "", "hyperparameters": "–", "search": "–", "source": ""}
    try:
        kind, defaults, ranges = loss_class(name), hyperparameters(name), _ranges(name)
    except ValueError as error:  # of an installed package that is broken; the others are not
        return {**row, "source": str(error)}
    listed = [f"{key} {_default(value)}" for key, value in defaults.items()]
    return {
        "loss": name,
        "formula": str(getattr(kind, "formula", "")),
        "hyperparameters": ", ".join(listed) or "–",
        "search": ranges if defaults else "–",
        "source": str(getattr(kind, "source", "")),
    }


def _ranges(loss: str) -> str:
    from search_spaces import available_search_spaces, search_space
    from sweeps.planning.preview import describe_range

    if loss not in available_search_spaces():
        return "no range: give it in the sweep file"
    return ", ".join(f"{key} {describe_range(d)}" for key, d in search_space(loss).items()) or "–"


def _default(value: Any) -> str:
    return "(required)" if value is inspect.Parameter.empty else format_value(value)


def losses_table() -> Table:
    """The losses for the terminal; docs/losses.md has the formulas too."""
    return _table([{k: v for k, v in row.items() if k != "formula"} for row in losses_rows()])


def losses_markdown() -> str:
    """The losses as the table of docs/losses.md."""
    rows = losses_rows()
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    for row in rows:
        name, *cells = (value.replace("|", "\\|") for value in row.values())
        lines.append([f"`{name}`", *cells])
    return markdown_table(lines)


def metrics_table() -> Table:
    from trainables.metrics import METRICS

    return _table(
        [
            {
                "metric": metric.name,
                "better": "higher" if metric.higher_is_better else "lower",
                "what it is": metric.description,
            }
            for metric in METRICS.values()
        ]
    )


def datasets_table() -> Table:
    from trainables.data import available_datasets, dataset_options

    own = {"dataset": "package.module:function", "options": "your own loader"}
    rows = [_component("dataset", name, dataset_options) for name in available_datasets()]
    return _table([*rows, own])


def models_table() -> Table:
    from trainables.models import available_models, model_options

    rows = [_component("model", name, model_options) for name in available_models()]
    options = {"model": "timm/<name>", "options": "any image model of timm; pretrained (False) ..."}
    texts = {
        "model": "huggingface/<name or folder>",
        "options": "any encoder of texts there (the extra text); pretrained (True)",
    }
    own = {"model": "package.module:function", "options": "your own builder"}
    return _table([*rows, options, texts, own])


def recipes_table() -> Table:
    from sweeps.sweep_file.loading import describe_recipe, load_sweep, recipes

    return _table(
        [
            {
                "recipe": name,
                "epochs": str(sum(stage.recipe.epochs for stage in load_sweep(name).stages)),
                "source": describe_recipe(name),
            }
            for name in recipes()
        ]
    )


def _component(
    kind: str, name: str, options_of: Callable[[str], dict[str, object]]
) -> dict[str, str]:
    try:
        listed = ", ".join(f"{key} ({value!r})" for key, value in options_of(name).items())
    except ValueError as error:  # of an installed package that is broken; the others are not
        listed = str(error)
    return {kind: name, "options": listed or "–"}


def _table(rows: list[dict[str, str]]) -> Table:
    table = new_table(*rows[0], whole=1)
    for row in rows:
        table.add_row(*row.values())
    return table


TABLES: Final[dict[str, Callable[[], Table]]] = {
    "metrics": metrics_table,
    "datasets": datasets_table,
    "recipes": recipes_table,
    "models": models_table,
}
"""The table that each command prints."""
