"""Post-hoc calibration methods by name."""

from typing import Any

from trainables.plugins.arguments import check_choice
from trainables.posthoc.affine import DirichletCalibration, VectorScaling
from trainables.posthoc.base import PostHoc
from trainables.posthoc.chosen import SelectedScaling
from trainables.posthoc.meta_calibration import MetaCalibration
from trainables.posthoc.structured import StructuredMatrixScaling, StructuredVectorScaling
from trainables.posthoc.temperature import TemperatureScaling

_METHODS: dict[str, type[PostHoc]] = {
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


def available_posthoc() -> tuple[str, ...]:
    """Names of all post-hoc calibration methods."""
    return tuple(_METHODS)


def make_posthoc(name: str, **options: Any) -> PostHoc:
    """Creates an unfitted post-hoc calibration method by name, one of :func:`available_posthoc`.

    Raises ValueError for an unknown name or a wrong value, TypeError for an unknown option.
    """
    return _METHODS[check_choice("post-hoc method", name, _METHODS)](**options)
