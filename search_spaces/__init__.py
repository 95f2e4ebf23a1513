"""The search spaces of calsweep: ranges and published settings of each loss.

Each loss has one module here with two constants: ``SPACE``, which maps hyperparameters to Optuna
distributions, and ``PUBLISHED``, the settings to try first, each with a value for exactly the
hyperparameters in ``SPACE``. If the published settings depend on the number of classes, the module
has a function ``published(num_classes)`` instead of ``PUBLISHED``; ``num_classes`` may be None.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Final

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

Distribution = CategoricalDistribution | FloatDistribution | IntDistribution
"""Of a hyperparameter."""

ENTRY_POINT_GROUP: Final = "calsweep.search_spaces"
"""Entry point group of search spaces in packages: ``my_loss = "my_package.my_space"``."""


def available_search_spaces() -> tuple[str, ...]:
    """Names of the losses that have a search space, sorted."""
    return tuple(sorted(_modules()))


def search_space(loss: str) -> dict[str, Distribution]:
    """The Optuna distribution of each searched hyperparameter of a loss.

    Raises:
        ValueError: There is no search space of that name.
    """
    return dict(_module(loss).SPACE)


def published_settings(loss: str, num_classes: int | None = None) -> list[dict[str, object]]:
    """The published settings of a loss, each with a value for every searched hyperparameter.

    If the paper uses different settings for different numbers of classes, the matching one comes
    first. Errors: see :func:`search_space`.
    """
    module = _module(loss)
    settings = module.published(num_classes) if hasattr(module, "published") else module.PUBLISHED
    return [dict(setting) for setting in settings]


def _module(loss: str) -> ModuleType:
    modules = _modules()
    if loss not in modules:
        close = difflib.get_close_matches(loss, modules, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(
            f"no search space for loss {loss!r}{hint}; there are: {', '.join(sorted(modules))}"
        )
    try:
        module = importlib.import_module(modules[loss])
    except Exception as error:  # importing a user's module may raise anything
        raise ValueError(
            f"the search space of loss {loss!r} cannot be imported: {error}"
        ) from error
    if not hasattr(module, "SPACE") or not (
        hasattr(module, "PUBLISHED") or hasattr(module, "published")
    ):
        raise ValueError(
            f"the search space of loss {loss!r}, {modules[loss]}, must have SPACE, and PUBLISHED "
            "or published(num_classes)"
        )
    return module


@cache
def _modules() -> Mapping[str, str]:
    installed = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    ours = {module.name: f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)}
    return {**installed, **ours}
