"""Search space and published settings of each loss: :mod:`search_spaces.table`, and packages.

A module of a package has ``SPACE``, which maps hyperparameters to Optuna distributions, and
``PUBLISHED``, or a function ``published(num_classes)``: see :class:`~search_spaces.table.Space`.
"""

import difflib
import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

from optuna.distributions import BaseDistribution

from search_spaces.table import SPACES, Space

ENTRY_POINT_GROUP: Final = "calsweep.search_spaces"
"""Entry point group of search spaces in packages: ``my_loss = "my_package.my_space"``."""


def available_search_spaces() -> tuple[str, ...]:
    """Names of the losses that have a search space, sorted."""
    return tuple(sorted({*_installed(), *SPACES}))


def search_space(loss: str) -> dict[str, BaseDistribution]:
    """The Optuna distribution of each searched hyperparameter of a loss.

    Raises:
        ValueError: There is no search space of that name.
    """
    return dict(_space(loss).ranges)


def published_settings(loss: str, num_classes: int | None = None) -> list[dict[str, Any]]:
    """The published settings of a loss, each with a value for every searched hyperparameter.

    If the paper uses different settings for different numbers of classes, the matching one comes
    first. Errors: see :func:`search_space`.
    """
    published = _space(loss).published
    settings = published(num_classes) if callable(published) else published
    return [dict(setting) for setting in settings]


def _space(loss: str) -> Space:
    if loss in SPACES:
        return SPACES[loss]
    known = available_search_spaces()
    if loss not in known:
        close = difflib.get_close_matches(loss, known, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"no search space for loss {loss!r}{hint}; there are: {', '.join(known)}")
    path = _installed()[loss]
    try:
        found = vars(importlib.import_module(path))
    except Exception as error:  # importing a user's module may raise anything
        raise ValueError(
            f"the search space of loss {loss!r} cannot be imported: {error}"
        ) from error
    published = found.get("published", found.get("PUBLISHED"))
    if "SPACE" not in found or published is None:
        raise ValueError(
            f"the search space of loss {loss!r}, {path}, must have SPACE, and PUBLISHED or "
            "published(num_classes)"
        )
    return Space(found["SPACE"], published)


@cache
def _installed() -> Mapping[str, str]:
    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
