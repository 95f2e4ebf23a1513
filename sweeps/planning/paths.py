"""Paths in a sweep file, made absolute when the sweep is created.

Workers, a resumed sweep, and what reads its data later may have another working folder.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any, Final, TypeVar

from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.fields import NamedSection
from sweeps.sweep_file.sections.training import ModelSection

S = TypeVar("S", bound=NamedSection)

PATH_OPTIONS: Final = (
    *("train", "test", "validation", "train_labels", "test_labels", "validation_labels"),
    *("root", "cache", "vectors"),
)
"""Options of datasets that are paths."""

_HUB: Final = "huggingface/"


def with_absolute_paths(sweep: SweepFile) -> SweepFile:
    """The sweep with absolute paths in the options of its data, model and loop.

    An option is a path if it is known as one, or has a slash, and there is such a file or folder.
    The label of the data remains, as their title.
    """
    dataset = _absolute(sweep.dataset)
    if dataset.label != sweep.dataset.label:
        dataset = dataset.model_copy(update={"title": sweep.dataset.label})
    sets = sweep.evaluation
    update: dict[str, object] = {
        "dataset": dataset,
        "model": _with_place(_absolute(sweep.model)),
        "evaluation": sets.model_copy(
            update={
                "shift": tuple(map(_absolute, sets.shift)),
                "ood": tuple(map(_absolute, sets.ood)),
            }
        ),
    }
    if sweep.encoder is not None and sweep.encoder.checkpoint is not None:
        place = _option(sweep.encoder.checkpoint, "root")
        update["encoder"] = sweep.encoder.model_copy(update={"checkpoint": place})
    if sweep.trainable is not None:
        update["trainable"] = _absolute(sweep.trainable)
    return sweep.model_copy(update=update)


def _absolute(section: S) -> S:
    changed = {key: _option(value, key) for key, value in section.options.items()}
    return section.model_copy(update=changed) if changed != section.options else section


def _with_place(model: ModelSection) -> ModelSection:
    """A model whose name contains a folder."""
    if not model.name.startswith(_HUB):
        return model
    place = _option(model.name.removeprefix(_HUB), "root")
    return model.model_copy(update={"name": _HUB + place})


def _option(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _option(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_option(each, key) for each in value)
    if not isinstance(value, str) or "://" in value:
        return value
    place = os.path.expanduser(value)
    may_be_path = key in PATH_OPTIONS or "/" in value
    if os.path.isabs(value) or not may_be_path:
        return value
    if not (os.path.exists(place) or glob.glob(place)):
        return value
    return str(Path(place).absolute())
