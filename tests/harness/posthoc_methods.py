"""The post-hoc methods by name, with those that only benchmarks compare."""

from benchmarks.tabular.affine import DirichletCalibration, VectorScaling
from trainables.posthoc import (
    MetaCalibration,
    PostHoc,
    SelectedScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
)

POSTHOC: dict[str, type[PostHoc]] = {
    method.name: method
    for method in (
        TemperatureScaling,
        VectorScaling,
        StructuredVectorScaling,
        StructuredMatrixScaling,
        SelectedScaling,
        DirichletCalibration,
        MetaCalibration,
    )
}
