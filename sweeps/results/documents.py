"""Results as plain data for JSON, and back: the same two functions for every type of a result."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_document(value: Any) -> dict[str, Any]:
    """A dataclass as plain data, with all that is inside it."""
    found: dict[str, Any] = _adapter(type(value)).dump_python(value)
    return found


def from_document(kind: type[T], kept: object) -> T:
    """A dataclass from plain data; unknown fields are ignored, because other versions have others.

    Raises ValueError if a field is missing or of another type.
    """
    found: T = _adapter(kind).validate_python(kept)
    return found
