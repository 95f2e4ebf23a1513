"""A look at the names in a sweep file that does not import PyTorch."""

from __future__ import annotations

import importlib.util

from search_spaces import available_search_spaces, search_space
from sweeps.sweep_file.schema import DEFAULT_MODEL, OWN_DATA, LossSection, SweepFile
from sweeps.sweep_file.sections.data import DatasetSection


def names_look_right(sweep: SweepFile) -> bool:
    """Whether it has no typo that is visible without PyTorch, whose import takes seconds.

    Whether everything is right is decided by :func:`~sweeps.planning.checks.check_sweep`.
    """
    from trainables.models import OTHERS, available_models

    model = (sweep.trainable or sweep.model).name
    return (
        _data_look_right(sweep.dataset)
        and (
            model in (*available_models(), DEFAULT_MODEL)
            or model.startswith(OTHERS)
            or _is_path(model)
        )
        and all(map(_loss_looks_right, sweep.losses))
    )


def _data_look_right(section: DatasetSection) -> bool:
    from trainables.data import check_dataset_options

    try:
        if section.name != OWN_DATA:
            check_dataset_options(section.name, **section.options)
    except (ValueError, TypeError):
        return False
    return True


def _loss_looks_right(section: LossSection) -> bool:
    if section.name not in available_search_spaces():
        return _is_path(section.name)
    return set(section.hyperparameters) | set(section.space) <= set(search_space(section.name))


def _is_path(name: str) -> bool:
    """Whether it is the path of an object in a package that exists, or of a saved object."""
    from trainables.plugins.saved_objects import is_kept

    package = name.partition(":")[0].partition(".")[0]
    return is_kept(name) or (":" in name and importlib.util.find_spec(package) is not None)
