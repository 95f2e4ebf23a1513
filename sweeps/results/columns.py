"""The metrics in tables, which depend on the sweep's objective."""

from __future__ import annotations

from sweeps.messages.formatting import metric_heading
from trainables.contract.metric_names import MetricName

_USUAL = "ece"


def objective_metric(objective: str) -> str:
    """The metric behind an objective: ``nll`` of ``val_nll_scaled``; ECE for the error."""
    metric = MetricName.parse(objective).metric
    return _USUAL if metric == "error" else metric


def shown_metrics(objective: str) -> dict[str, tuple[str, str]]:
    """The metrics of a trial that a table shows, each with its heading in two lines.

    On the validation split: the error, the objective's metric and, for a calibration error, the
    calibrated bound. On the test split: both, and the metric after scaling; the AUROC if the
    objective is about an event, whose errors say little if it is rare. Last the temperature.
    """
    metric = objective_metric(objective)
    scaled = MetricName.parse(objective).scaled
    judged = MetricName(metric, "val", scaled)
    bound = {judged.with_statistic("calibrated_high"): ("calib.", "bound")}
    heading = metric_heading(metric)
    return {
        "val_error": ("error", "val"),
        str(judged): (heading, "val scaled" if scaled else "val"),
        **(bound if metric.endswith("ece") else {}),
        "test_error": ("error", "test"),
        str(MetricName(metric, "test")): (heading, "test"),
        str(MetricName(metric, "test", scaled=True)): (heading, "scaled"),
        **({"test_auroc": ("AUROC", "test")} if metric == "event_ece" else {}),
        "temperature": ("", "T"),
    }


def one_line(heading: tuple[str, str]) -> str:
    """``val ECE``, ``ECE scaled``, ``T``: a heading of :func:`shown_metrics` in one line."""
    name, split = heading
    return f"{split} {name}" if split.startswith(("val", "test")) else f"{name} {split}".strip()
