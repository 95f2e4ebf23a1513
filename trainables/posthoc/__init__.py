"""Calibration after training: temperature scaling and Meta-Cal."""

from trainables.posthoc.crossfit import cross_fitted
from trainables.posthoc.meta_calibration import MetaCalibration
from trainables.posthoc.temperature import TemperatureScaling

__all__ = ["MetaCalibration", "TemperatureScaling", "cross_fitted"]
