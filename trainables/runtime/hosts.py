"""Checks that a library still has the private names that calsweep uses."""

import logging
from functools import cache
from pkgutil import resolve_name

logger = logging.getLogger("calsweep")


@cache
def provides(purpose: str, *names: str) -> bool:
    """Whether all names (``package.module:attribute.attribute``) exist; logs once if not."""
    for name in names:
        try:
            resolve_name(name)
        except (ImportError, AttributeError):
            logger.warning("%s is off: this version has no %s", purpose, name)
            return False
    return True
