"""Sweep files that earlier versions of calsweep stored, and what has become of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

FORMAT: Final = 2
"""Of a sweep's files. It rises with each change that earlier versions would misread or refuse."""

KEYS: Final[Mapping[str, str | None]] = {
    "search.stop_at_noise": None,  # these until format 1
    "search.warm_start": "search.learn_from",
    "tracking.system_metrics": None,
    "training.layout": None,
    "training.fused_optimizer": None,
    "encoder.training.layout": None,
    "encoder.training.fused_optimizer": None,
}
"""The present name of each key that stored files may have, with its section.

None if it has no effect any more.
"""

_BEFORE: Final[Mapping[str, Any]] = {
    "scaling_method": {"criterion": "nll_unpenalised"},  # until format 1, there was no other
}
"""Sections that older files lack, with the values that had the same effect."""


def upgraded(tree: Mapping[str, Any]) -> dict[str, object]:
    """The values of a complete stored sweep file, with their meaning, under the present keys."""
    return {**_BEFORE, **with_present_keys(tree)}


def with_present_keys(tree: Mapping[str, Any]) -> dict[str, object]:
    """Values of a sweep file under the present keys, without those that have no effect."""
    found = deepcopy(dict(tree))
    for old, new in KEYS.items():
        *sections, key = old.split(".")
        values: Any = found
        for section in sections:
            values = values.get(section) if isinstance(values, dict) else None
        if not isinstance(values, dict) or key not in values:
            continue
        value = values.pop(key)
        if new is not None and value != []:
            section, _, key = new.partition(".")
            found.setdefault(section, {}).setdefault(key, value)
    return found
