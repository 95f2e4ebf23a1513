"""The metrics: functions of probabilities (N, K) and labels (N,) as tensors.

>>> calsweep.metrics.expected_calibration_error(probs, labels, num_bins=15)
>>> calsweep.metrics.evaluate(logits, labels)
"""

from __future__ import annotations

from typing import Any

from trainables import metrics as _metrics

__all__ = list(_metrics.__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'calsweep.metrics' has no attribute {name!r}")
    return getattr(_metrics, name)


def __dir__() -> list[str]:
    return sorted(__all__)
