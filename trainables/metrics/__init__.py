"""Metrics of calibration, sharpness, refinement and out-of-distribution detection.

Functions take probabilities `probs`, shape (N, K), float32 or float64, whose rows sum to one, and
true classes `labels`, shape (N,), integers, on the same device, CPU or GPU. They return floats:
fractions, not percent. They raise TypeError if the arguments are not tensors of floats and of
integers, and ValueError if shapes or values are not as described. `evaluate` takes logits and
returns all metrics by name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from trainables.metrics.calibration import (
    ReliabilityBins,
    adaptive_calibration_error,
    classwise_calibration_error,
    debiased_calibration_error,
    event_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_bins,
    sweep_calibration_error,
)
from trainables.metrics.kernel_density import kde_calibration_error
from trainables.metrics.proper_scores import (
    accuracy,
    brier_score,
    error_rate,
    mean_iou,
    negative_log_likelihood,
    root_brier_score,
)
from trainables.metrics.separation import (
    aurc,
    e_aurc,
    failure_auroc,
    multiclass_auroc,
    nll_aurc,
    ood_metrics,
    risk_coverage,
)
from trainables.metrics.smooth import smooth_calibration_error
from trainables.metrics.table import (
    EPOCH_METRICS,
    METRIC_NAMES,
    METRICS,
    ON_REQUEST,
    Metric,
    evaluate,
)

if TYPE_CHECKING:
    from trainables.metrics.inference.calibrated_reference import (
        REFERENCED_METRICS,
        calibrated_reference,
    )
    from trainables.metrics.inference.detectable import chance_of_detection, detectable_difference
    from trainables.metrics.inference.differences import (
        COMPARABLE,
        Difference,
        chance_of_support,
        difference,
        mean_difference,
    )
    from trainables.metrics.inference.direction import Direction, direction
    from trainables.metrics.inference.intervals import (
        CORRECTED,
        corrected,
        interval,
        intervals,
        nll_calibration,
    )
    from trainables.metrics.inference.resampling import bootstrap
    from trainables.metrics.inference.selection import Design

_INFERENCE: Final = (
    *("intervals", "calibrated_reference", "direction", "resampling"),
    *("detectable", "selection", "differences"),
)
"""Modules that are imported on first use, in this order: SciPy takes long to import."""

__all__ = [
    "COMPARABLE",
    "CORRECTED",
    "EPOCH_METRICS",
    "METRICS",
    "METRIC_NAMES",
    "ON_REQUEST",
    "REFERENCED_METRICS",
    "Design",
    "Difference",
    "Direction",
    "Metric",
    "ReliabilityBins",
    "accuracy",
    "adaptive_calibration_error",
    "aurc",
    "bootstrap",
    "brier_score",
    "calibrated_reference",
    "chance_of_detection",
    "chance_of_support",
    "classwise_calibration_error",
    "corrected",
    "debiased_calibration_error",
    "detectable_difference",
    "difference",
    "direction",
    "e_aurc",
    "error_rate",
    "evaluate",
    "event_calibration_error",
    "expected_calibration_error",
    "failure_auroc",
    "interval",
    "intervals",
    "kde_calibration_error",
    "maximum_calibration_error",
    "mean_difference",
    "mean_iou",
    "multiclass_auroc",
    "negative_log_likelihood",
    "nll_aurc",
    "nll_calibration",
    "ood_metrics",
    "reliability_bins",
    "risk_coverage",
    "root_brier_score",
    "smooth_calibration_error",
    "sweep_calibration_error",
]


def __getattr__(name: str) -> Any:
    for module in _INFERENCE if name in __all__ else ():
        found = vars(import_module(f"{__name__}.inference.{module}"))
        if name in found:
            return globals().setdefault(name, found[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
