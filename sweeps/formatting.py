"""How settings and numbers read to people."""

from __future__ import annotations

import math
from typing import Any

from sweeps.search.record import TrialRecord

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


def format_value(value: Any) -> str:
    """A number with up to four significant digits, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_fraction(value: float) -> str:
    """Four decimals without the leading zero, as tables of errors have it."""
    return "–" if math.isnan(value) else f"{value:.4f}".removeprefix("0")


def format_hyperparameters(hyperparameters: dict[str, Any]) -> str:
    """``γ=4.7 λ=0.1``; an en dash where there are none."""
    parts = [f"{_SYMBOLS.get(k, k)}={format_value(v)}" for k, v in hyperparameters.items()]
    return " ".join(parts) or "–"


def run_name(record: TrialRecord) -> str:
    """``dual_focal γ=4.7``, with the seed for a finalist or an encoder."""
    values = format_hyperparameters(record.hyperparameters) if record.hyperparameters else ""
    seed = "" if record.searched else f"seed={record.seed}"
    stage = "encoder" if record.role == "encoder" else ""
    loss = record.loss.rpartition(":")[2]
    return " ".join(part for part in (stage, loss, values, seed) if part)
