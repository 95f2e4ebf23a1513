"""The metrics: functions of probabilities (N, K) and labels (N,) as tensors.

>>> calsweep.metrics.expected_calibration_error(probs, labels, num_bins=15)
>>> calsweep.metrics.evaluate(logits, labels)

``calsweep[torchmetrics]`` adds torchmetrics classes. They take batches of logits and labels and
compute over all batches and all workers:

>>> ece = calsweep.metrics.ECE(num_bins=15)
>>> ece.update(logits, labels)
>>> ece.compute()
"""

from __future__ import annotations

from typing import Any, Final

from trainables import metrics as _metrics

_ACRONYMS: Final = ("auroc", "aurc", "e", "ece", "iou", "kde", "mce", "nll")

__all__ = list(_metrics.__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(_metrics, name)
    if name in class_names():
        try:
            from calsweep.accumulating import metric_class
        except ModuleNotFoundError as error:
            if error.name != "torchmetrics":
                raise
            raise ImportError(
                f"calsweep.metrics.{name} needs torchmetrics, which is not installed here; install "
                'it by: pip install "calsweep[torchmetrics]"'
            ) from None
        return metric_class(class_names()[name], name)
    raise AttributeError(f"module 'calsweep.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *class_names()])


def class_names() -> dict[str, str]:
    """Class names, such as ``AdaptiveECE``, and their metrics, such as ``adaptive_ece``."""
    return {_class_name(name): name for name in _metrics.METRICS}


def _class_name(metric: str) -> str:
    return "".join(
        part.upper() if part in _ACRONYMS else part.capitalize() for part in metric.split("_")
    )
