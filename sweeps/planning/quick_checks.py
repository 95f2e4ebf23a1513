"""Finds most typing errors in a sweep without importing torch, which takes seconds."""

from __future__ import annotations

import importlib.util

from sweeps.planning.checks import check_sweep, part_faults, use_working_folder
from sweeps.sweep_file.schema import DEFAULT_MODEL, OWN_DATA, LossSection, SweepFile


def check_at_once_if_doubtful(sweep: SweepFile) -> None:
    """Check a sweep in full now if a name in it looks wrong, as far as can be seen without torch.

    Otherwise it is checked while Ray starts, because both take seconds.
    """
    use_working_folder()
    losses = [*sweep.losses, *([sweep.encoder.loss] if sweep.encoder is not None else [])]
    known = _dataset_is_known(sweep) and _trained_is_known(sweep)
    known = known and not part_faults(sweep)
    known = known and all(map(_module_is_there, sweep.search.own_metrics))
    if not (known and all(_loss_is_known(section) for section in losses)):
        check_sweep(sweep)


def _dataset_is_known(sweep: SweepFile) -> bool:
    from trainables.data import check_dataset_options

    if sweep.dataset.name == OWN_DATA:
        return True
    if ":" in sweep.dataset.name:
        return _module_is_there(sweep.dataset.name)
    try:
        check_dataset_options(sweep.dataset.name, **sweep.dataset.options)
    except (ValueError, TypeError):
        return False
    return True


def _trained_is_known(sweep: SweepFile) -> bool:
    from trainables.models import OTHERS, available_models

    if sweep.trainable is not None:
        return ":" in sweep.trainable.name and _module_is_there(sweep.trainable.name)
    name = sweep.model.name
    if ":" in name:
        return _module_is_there(name)
    return name in (DEFAULT_MODEL, *available_models()) or name.startswith(OTHERS)


def _loss_is_known(section: LossSection) -> bool:
    from search_spaces import available_search_spaces, search_space

    if ":" in section.name:
        return _module_is_there(section.name)
    if section.name not in available_search_spaces():
        return False
    return {*section.space, *section.hyperparameters} <= search_space(section.name).keys()


def _module_is_there(dotted_path: str) -> bool:
    package = dotted_path.partition(":")[0].partition(".")[0]
    return bool(package) and importlib.util.find_spec(package) is not None
