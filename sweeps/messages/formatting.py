"""Formats settings and numbers as text."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trainables.contract.metric_names import MetricName

_SYMBOLS = {
    "gamma": "γ",
    "lam": "λ",
    "alpha": "α",
    "epsilon": "ε",
    "margin": "m",
    "temperature": "τ",
    "rho": "ρ",
    "beta": "β",
}

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_ABBREVIATIONS = ("ece", "mce", "nll", "auroc", "aurc", "iou", "kde")
_WORDS = {
    "nll_calibration": "avoidable_nll",
    "brier": "Brier score",
    "root_brier": "root of the Brier score",
    "e_aurc": "excess_aurc",
}


def shortened(text: str, lines: int = 10) -> str:
    """A text, cut after its heading and this many lines."""
    head, *others = text.splitlines()
    more = [f"... and {len(others) - lines:,} more lines"] if len(others) > lines else []
    return "\n".join([head, *others[:lines], *more])


def format_value(value: Any) -> str:
    """A number with up to four significant digits; other values unchanged."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_fraction(value: float) -> str:
    """Four decimals without the leading zero, as in tables of errors."""
    return "–" if math.isnan(value) else f"{value:.4f}".removeprefix("0")


def scaling_words(scaling: Mapping[str, Any]) -> str:
    """``T = 1.35``, ``structured matrix scaling``, ``no scaling``: a scaling in a sentence.

    Args:
        scaling: Has ``name``, ``temperature`` and ``inverse``, as `Scaling.to_json` gives.
    """
    match name := scaling["name"]:
        case "temperature":
            found = f"T = {format_temperature(scaling['temperature'])}"
        case "none":
            found = "no scaling"
        case "beta":
            found = "beta calibration"
        case _:
            found = f"structured {name} scaling"
    return f"{found} after the inverse map of its loss" if scaling["inverse"] else found


def format_temperature(value: float) -> str:
    """Two decimals, which is as precise as a fitted temperature."""
    return "–" if math.isnan(value) else f"{value:.2f}"


def format_hyperparameters(hyperparameters: Mapping[str, Any]) -> str:
    """``γ=4.7 λ=0.1``; an en dash without hyperparameters."""
    parts = [f"{_SYMBOLS.get(k, k)}={format_value(v)}" for k, v in hyperparameters.items()]
    return " ".join(parts) or "–"


def format_loss(name: str) -> str:
    """The name of a loss; the last part of a dotted path."""
    return name.rpartition(":")[2]


def format_setting(loss: str, hyperparameters: Mapping[str, Any]) -> str:
    """``dual_focal γ=4.7``; the loss alone without hyperparameters."""
    name = format_loss(loss)
    return f"{name} {format_hyperparameters(hyperparameters)}" if hyperparameters else name


DEFAULT_STORAGE: Final = "calsweep-store"
"""The storage of commands that name none."""


def storage_option(storage: str) -> str:
    """`` --storage PATH`` for a command that a message prints; empty for the default storage."""
    return "" if storage == DEFAULT_STORAGE else f" --storage {shlex.quote(storage)}"


def calsweep_command(words: str, storage: str) -> str:
    """`` `calsweep WORDS --storage PATH` ``, as a message prints a command on that storage."""
    return f"`calsweep {words}{storage_option(storage)}`"


SUBMITTED_TO: Final = "CALSWEEP_SUBMITTED_TO"
"""The variable of a job with the URL of its cluster's dashboard, as the user knows it."""


def resume_command(words: str, storage: str, address: str | None = None) -> str:
    """The command that continues a sweep; in the output of a job with its cluster's address."""
    address = os.environ.get(SUBMITTED_TO) or address
    option = f" --address {shlex.quote(address)}" if address else ""
    return calsweep_command(f"resume {words}{option}", storage)


MARKDOWN: Final = str.maketrans({character: f"\\{character}" for character in "\\`*_|<>[]"})
"""Escapes what Markdown would interpret."""


def escaped_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return " ".join(text.split()).translate(MARKDOWN)


def markdown_table(lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the headings, the alignments such as ``---:``, and the rows."""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def counted(number: int, noun: str) -> str:
    """``1 seed``, ``3 seeds``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{ending}"


def number_ranges(numbers: Iterable[int]) -> str:
    """``0 to 3, 5``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def over_groups(count: float) -> str:
    """`` over 57 groups``, behind an interval; empty if it is NaN, as samples are independent."""
    return "" if math.isnan(count) else f" over {counted(round(count), 'group')}"


def format_rate(epochs: int, seconds: float) -> str:
    """``3.2 epochs/s``, or per minute or hour if slow; empty before the first epoch."""
    if epochs <= 0 or seconds <= 0:
        return ""
    each = {"s": 1, "min": 60, "h": 3600}
    unit = next((u for u, length in each.items() if epochs * length >= seconds), "h")
    return f"{epochs * each[unit] / seconds:.1f} epochs/{unit}"


def format_seconds(seconds: float) -> str:
    """A duration: ``0.4 s``, ``42 s``, ``12 min``, ``3.5 h``."""
    if seconds >= 6000:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:.2g} min"


def format_age(seconds: float) -> str:
    """``5 min``, ``3 h``, ``12 d``: a rounded duration."""
    hours = max(0, seconds) / 3600
    if hours >= 48:
        return f"{hours / 24:,.0f} d"
    return f"{hours:.0f} h" if hours >= 1.5 else f"{60 * hours:.0f} min"


def format_bytes(number: int) -> str:
    """``1.2 GB``, ``340.0 MB``, ``0.5 kB``."""
    size, unit = next(((s, u) for s, u in _UNITS if number >= s), _UNITS[-1])
    return f"{number / size:,.1f} {unit}"


def budget_unit(key: str) -> str:
    """``epochs``, ``hours`` or ``GPU hours`` for the key of a budget."""
    return key.removeprefix("max_").replace("gpu_", "GPU ")


def metric_heading(metric: str) -> str:
    """A metric or objective as a heading: ``ECE``, ``adaptive ECE``, ``NLL``, ``error``."""
    name = MetricName.parse(metric).metric
    words = _WORDS.get(name, name).split("_")
    return " ".join(w.upper() if w in _ABBREVIATIONS else w for w in words)


def objective_heading(objective: str) -> str:
    """``ECE with T`` for ``val_ece_scaled``."""
    return metric_heading(objective) + " with T" * MetricName.parse(objective).scaled


def finite(tree: Any) -> Any:
    """A tree of dicts and lists without NaN entries, which JSON does not support."""
    if isinstance(tree, dict):
        return {key: finite(item) for key, item in tree.items() if _is_finite(item)}
    if isinstance(tree, list | tuple):
        return [finite(item) for item in tree if _is_finite(item)]
    return tree


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
