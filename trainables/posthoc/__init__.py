"""Post-hoc calibration: methods behind one interface, and cross-fitting."""

from trainables.posthoc.base import PostHoc
from trainables.posthoc.crossfit import cross_fitted, cross_fitted_temperatures
from trainables.posthoc.meta_calibration import MetaCalibration
from trainables.posthoc.structured import (
    SelectedScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from trainables.posthoc.temperature import TemperatureScaling

__all__ = [
    "MetaCalibration",
    "PostHoc",
    "SelectedScaling",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "cross_fitted",
    "cross_fitted_temperatures",
]
