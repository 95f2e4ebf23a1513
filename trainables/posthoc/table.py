"""Post-hoc calibration methods by name."""

from typing import Any, Final

from trainables.plugins.arguments import check_choice
from trainables.plugins.components import Catalogue
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

_INSTALLED: Final = Catalogue("post-hoc method", "calsweep.posthoc", ours={}, form="Class")


def available_posthoc() -> tuple[str, ...]:
    """Names of all post-hoc calibration methods, those of installed packages last."""
    return (*_METHODS, *_INSTALLED.names())


def make_posthoc(name: str, **options: Any) -> PostHoc:
    """Creates an unfitted post-hoc calibration method by name, one of :func:`available_posthoc`.

    Raises ValueError for an unknown name or a wrong value, TypeError for an unknown option.
    """
    check_choice("post-hoc method", name, available_posthoc())
    kind: type[PostHoc] = _METHODS.get(name) or _INSTALLED.find(name)
    return kind(**options)
