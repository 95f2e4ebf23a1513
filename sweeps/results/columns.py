"""Which metrics tables show: they follow the sweep's objective."""

from __future__ import annotations

from sweeps.formatting import metric_heading, metric_of

_USUAL = "ece"


def objective_metric(objective: str) -> str:
    """The metric behind an objective: ``nll`` of ``val_nll_scaled``.

    For the error, which is shown anyway, it is the ECE.
    """
    metric = metric_of(objective)
    return _USUAL if metric == "error" else metric


def shown_metrics(objective: str) -> dict[str, tuple[str, str]]:
    """The metrics of a trial that a table shows, each with its heading in two lines.

    Error and the objective's metric on the validation split, beside a calibration error up to what
    a perfectly calibrated model would show; both on the test split, the metric also after
    temperature scaling; and the temperature.
    """
    metric = objective_metric(objective)
    scaled = objective.endswith("_scaled")
    judged = f"val_{metric}_scaled" if scaled else f"val_{metric}"
    heading = metric_heading(metric)
    return {
        "val_error": ("error", "val"),
        judged: (heading, "val scaled" if scaled else "val"),
        **({f"{judged}_calibrated_high": ("honest", "up to")} if metric.endswith("ece") else {}),
        "test_error": ("error", "test"),
        f"test_{metric}": (heading, "test"),
        f"test_{metric}_scaled": (heading, "scaled"),
        "temperature": ("", "T"),
    }


def one_line(heading: tuple[str, str]) -> str:
    """``val ECE``, ``ECE scaled``, ``T``: a heading of :func:`shown_metrics` in one line."""
    name, split = heading
    return f"{split} {name}" if split.startswith(("val", "test")) else f"{name} {split}".strip()
