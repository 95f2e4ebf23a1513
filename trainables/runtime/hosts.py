"""Checks that a library still has the private names that calsweep uses."""

from __future__ import annotations

import logging
from functools import cache, reduce
from importlib import import_module

logger = logging.getLogger("calsweep")


@cache
def provides(purpose: str, *names: str) -> bool:
    """Whether all names (``package.module:attribute.attribute``) exist; logs once if not."""
    for name in names:
        module, _, attributes = name.partition(":")
        try:
            reduce(getattr, attributes.split("."), import_module(module))
        except (ImportError, AttributeError):
            logger.warning("%s is off: this version has no %s", purpose, name)
            return False
    return True
