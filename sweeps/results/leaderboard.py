"""The table at the end of a sweep, and why the chosen setting was chosen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from sweeps.formatting import format_fraction, format_hyperparameters
from sweeps.search.ranking import BASELINE, Candidate, candidates, choose, guard_reference
from sweeps.search.record import TrialRecord
from sweeps.sweep_file.schema import SweepFile


def leaderboard(records: Sequence[TrialRecord], sweep: SweepFile) -> list[dict[str, Any]]:
    """One row per loss, best first: its best setting, and how that did.

    A loss none of whose trials ran to its end is shown by the stopped trial that came furthest.

    Returns:
        Rows with ``loss``, ``hyperparameters``, ``trials`` (how they ended), the metrics
        ``val_error``, ``val_ece``, ``test_error``, ``test_ece``, ``test_ece_scaled`` and
        ``temperature`` (means over the judged seeds), ``objective``, ``seeds`` and ``note``.
    """
    ranked = candidates(records, sweep.rule)
    chosen = choose(records, sweep.rule)
    reference = "baseline" if any(c.loss == BASELINE for c in ranked) else "lowest"
    limit = f"{reference} + {sweep.search.guard:g}"
    rows = []
    heads = [r for r in records if r.role != "encoder"]
    for loss in dict.fromkeys([c.loss for c in ranked] + [r.loss for r in heads]):
        own = [r for r in heads if r.loss == loss]
        best = next((c for c in ranked if c.loss == loss), None)
        if best is not None:
            judged, note = (
                best.judged,
                _note(best, chosen, limit),
            )
        else:
            furthest = max(own, key=lambda r: (r.epochs, -r.outcome.get("val_nll", math.inf)))
            judged, note = (furthest,), _unfinished_note(furthest)
        rows.append(
            {
                "loss": loss,
                "hyperparameters": judged[0].hyperparameters,
                "trials": dict(Counter(r.state for r in own)),
                **{name: _mean(judged, name) for name in _METRICS},
                "objective": _mean(judged, sweep.search.objective),
                "seeds": len(judged) if judged[0].role == "finalist" else 0,
                "note": note,
            }
        )
    return rows


_METRICS = ("val_error", "val_ece", "test_error", "test_ece", "test_ece_scaled", "temperature")


def leaderboard_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows of :func:`leaderboard` for the terminal; fits into 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("loss", no_wrap=True)
    table.add_column("best setting", overflow="fold")
    for heading in ("error\nval", "ECE\nval", "error\ntest", "ECE\ntest", "ECE\nscaled"):
        table.add_column(heading, justify="right", min_width=5, no_wrap=True)
    table.add_column("\nT", justify="right", min_width=4, no_wrap=True)
    table.add_column("", overflow="fold", min_width=9)
    for row in rows:
        chosen = row["note"] == "chosen"
        judged = row["note"] in ("baseline", "finalist", "one seed")
        table.add_row(
            row["loss"].rpartition(":")[2],
            format_hyperparameters(row["hyperparameters"]),
            *(format_fraction(row[name]) for name in _METRICS[:-1]),
            "–" if math.isnan(row["temperature"]) else f"{row['temperature']:.2f}",
            row["note"],
            style="bold green" if chosen else None if judged else "dim",
        )
    return table


def explain_choice(records: Sequence[TrialRecord], sweep: SweepFile) -> list[str]:
    """Why the chosen setting was chosen, how sure that is, and what it does on the test split."""
    chosen = choose(records, sweep.rule)
    if chosen is None:
        return [
            "No setting is chosen: no trial ran to its end with a validation error within "
            f"{sweep.search.guard:g} of the baseline's."
        ]
    metric = sweep.search.objective
    over = (
        f"mean over {len(chosen.judged)} new seeds"
        if chosen.judged[0].role == "finalist"
        else "one seed; set selection.finalists and selection.seeds to be surer"
    )
    baseline = next((c for c in candidates(records, sweep.rule) if c.loss == BASELINE), None)
    guard = (
        f"among settings whose validation error is at most {sweep.search.guard:g} above "
        "cross-entropy's."
        if baseline is not None
        else f"among settings whose validation error is at most {sweep.search.guard:g} above the "
        f"lowest, as the cross-entropy baseline did not finish{_baseline_reason(records)}."
    )
    given = chosen.trials[0].hyperparameters
    values = [format_hyperparameters(given)] if given else []
    lines = [
        f"Chosen: {' '.join([chosen.loss, *values])} – the "
        f"lowest {metric}, {chosen.objective:.4f} ({over}), {guard}"
    ]
    if baseline is not None and baseline != chosen:
        lines.append(
            f"The cross-entropy baseline has {baseline.objective:.4f}, validation error "
            f"{baseline.val_error:.4f} (chosen: {chosen.val_error:.4f})."
        )
        if _overlap(chosen, baseline):
            lines.append(
                "Their 95% intervals overlap: on this validation split the two cannot be told "
                "apart for sure."
            )
    lines.append(
        f"On the test split, which chose nothing: ECE {chosen.mean('test_ece'):.4f} "
        f"[{chosen.mean('test_ece_low'):.4f}, {chosen.mean('test_ece_high'):.4f}], after "
        f"temperature scaling {chosen.mean('test_ece_scaled'):.4f}, error "
        f"{chosen.mean('test_error'):.4f}."
    )
    return lines


def _baseline_reason(records: Sequence[TrialRecord]) -> str:
    reasons = [r.reason for r in records if r.role == "baseline" and r.reason]
    return f" ({reasons[0]})" if reasons else ""


def _overlap(first: Candidate, second: Candidate) -> bool:
    return first.mean("val_ece_low") <= second.mean("val_ece_high") and second.mean(
        "val_ece_low"
    ) <= first.mean("val_ece_high")


def _note(candidate: Candidate, chosen: Candidate | None, limit: str) -> str:
    if candidate == chosen:
        return "chosen"
    if not candidate.feasible:
        return f"error > {limit}"
    name = "baseline" if candidate.loss == BASELINE else ""
    again = "finalist" if candidate.judged[0].role == "finalist" else ""
    return name or again or "one seed"


def _unfinished_note(record: TrialRecord) -> str:
    if record.state == "failed":
        return f"failed: {record.reason}"
    return f"stopped at epoch {record.epochs}"


def _mean(records: Sequence[TrialRecord], name: str) -> float:
    values = [record.outcome.get(name, math.nan) for record in records]
    return sum(values) / len(values)


def failure_summary(records: Sequence[TrialRecord]) -> str:
    """The reasons for which trials failed, the most frequent first, with how often each."""
    reasons = Counter(record.reason or "unknown" for record in records if record.state == "failed")
    return "\n".join(f"  {count} × {reason}" for reason, count in reasons.most_common(5))


def selection_summary(records: Sequence[TrialRecord], sweep: SweepFile) -> dict[str, Any]:
    """The same for programs: the chosen setting with its metrics, the rows, the reasons."""
    chosen = choose(records, sweep.rule)
    summary: dict[str, Any] = {
        "sweep": sweep.name,
        "dataset": sweep.dataset.label,
        "model": sweep.model_label,
        "why": explain_choice(records, sweep),
        "guard_reference": guard_reference([r for r in records if r.role == "baseline"]),
        "rows": leaderboard(records, sweep),
    }
    if chosen is not None:
        summary["chosen"] = {
            "loss": chosen.loss,
            "hyperparameters": chosen.trials[0].hyperparameters,
            "val": {n: chosen.mean(f"val_{n}") for n in ("error", "ece", "nll")},
            "test": {n: chosen.mean(f"test_{n}") for n in ("error", "ece", "nll")},
            "temperature": chosen.mean("temperature"),
        }
    return summary
