"""Post-hoc calibration: methods behind one interface, and cross-fitting."""

from trainables.posthoc.affine import DirichletCalibration, VectorScaling
from trainables.posthoc.base import PostHoc
from trainables.posthoc.crossfit import cross_fitted, cross_fitted_temperatures
from trainables.posthoc.meta_calibration import MetaCalibration
from trainables.posthoc.structured import (
    SelectedScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from trainables.posthoc.table import available_posthoc, make_posthoc
from trainables.posthoc.temperature import TemperatureScaling

__all__ = [
    "DirichletCalibration",
    "MetaCalibration",
    "PostHoc",
    "SelectedScaling",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
    "available_posthoc",
    "cross_fitted",
    "cross_fitted_temperatures",
    "make_posthoc",
]
