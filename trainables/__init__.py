"""The code of workers: losses, metrics, models, data, the training loop.

Modules that moved into these packages can still be imported under their earlier names, because
custom code may import them, and pickled objects, such as saved models, refer to them.
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_MOVED = {  # from trainables.NAME to trainables.PACKAGE.NAME
    "contract": "config report",
    "files": "checkpoints digests predictions storage",
    "plugins": "arguments components",
    "runtime": "distributed",
    "metrics": "own_metric",
    "engine": "batch_norm class_weights feed optimizers precision training workload",
    "trials": "loop_run outcome own_loop trial two_stage",
    "export": "calibrated exported raw_samples",
    "data.core": "data.bad_samples data.base data.splits data.tasks",
    "data.kinds": "augmentation data.samples data.subwords data.table data.tokens",
    "data.labelling": "data.labels data.targets",
    "data.readers": "data.ahead data.arrays data.files data.image_folder data.images "
    "data.labelled_rows data.rows data.storing data.streamed",
    "data.named": "data.digits data.tiny_imagenet data.torchvision_files data.voc",
}
_NEW_NAMES = {
    f"trainables.{name}": f"trainables.{package}.{name.rpartition('.')[2]}"
    for package, names in _MOVED.items()
    for name in names.split()
} | {
    "trainables.kept": "trainables.plugins.saved_objects",
    **dict.fromkeys(
        (f"trainables.data.{name}" for name in ("cifar", "mnist", "stl10", "svhn")),
        "trainables.data.named.torchvision_files",
    ),
}


class _MovedModules(MetaPathFinder, Loader):
    """Makes the earlier name of a module an alias."""

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in _NEW_NAMES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_NEW_NAMES[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # importing has replaced it


sys.meta_path.append(_MovedModules())
