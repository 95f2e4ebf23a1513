"""Prefetching: work ahead in order, with a limit on pending results."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Thing = TypeVar("Thing")


def in_order(
    submit: Callable[..., Any], work: Callable[[Thing], Any], things: Iterable[Thing], ahead: int
) -> Iterator[Any]:
    """Results of ``work`` for each item, in order, with at most ``ahead`` items in progress.

    ``submit`` is the method of an executor. The items are consumed as needed.
    """
    waiting: deque[Any] = deque()
    for thing in things:
        waiting.append(submit(work, thing))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
