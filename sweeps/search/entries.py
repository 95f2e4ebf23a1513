"""Compact metrics of epochs, because the driver keeps those of all trials."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache

_LAYOUTS = 1024  # a sweep has few layouts

Layout = dict[str, tuple[int, type]]


class CompactEntry(Mapping[str, float]):
    """The metrics of an epoch as a read-only mapping, in a fifth of a dict's memory.

    The epochs of a sweep share a few sets of names, each of which is stored once. Integers and
    booleans keep their type.
    """

    __slots__ = ("_layout", "_values")

    def __init__(self, metrics: Mapping[str, float]) -> None:
        values = metrics.values()
        self._layout = _layout(tuple(metrics), tuple(map(type, values)))
        self._values = array("d", values)

    def __getitem__(self, name: str) -> float:
        place, kind = self._layout[name]
        value: float = kind(self._values[place])
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self))


@lru_cache(_LAYOUTS)
def _layout(names: tuple[str, ...], kinds: tuple[type, ...]) -> Layout:
    pairs = zip(names, kinds, strict=True)
    return {name: (place, kind) for place, (name, kind) in enumerate(pairs)}
