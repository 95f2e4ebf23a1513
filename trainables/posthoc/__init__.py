"""Post-hoc calibration: methods behind one interface, and cross-fitting."""

from trainables.posthoc.affine import DirichletCalibration, VectorScaling
from trainables.posthoc.base import PostHoc
from trainables.posthoc.chosen import SelectedScaling, choose
from trainables.posthoc.crossfit import cross_fitted
from trainables.posthoc.meta_calibration import MetaCalibration
from trainables.posthoc.scaling import Scaling
from trainables.posthoc.structured import (
    BetaScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from trainables.posthoc.table import available_posthoc, make_posthoc
from trainables.posthoc.temperature import TemperatureScaling

__all__ = [
    "BetaScaling",
    "DirichletCalibration",
    "MetaCalibration",
    "PostHoc",
    "Scaling",
    "SelectedScaling",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
    "available_posthoc",
    "choose",
    "cross_fitted",
    "make_posthoc",
]
