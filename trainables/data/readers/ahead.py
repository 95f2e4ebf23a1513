"""Prefetching: work ahead in order, with a limit on pending results."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Thing = TypeVar("Thing")


def in_order(
    submit: Callable[..., Any], work: Callable[[Thing], Any], things: Iterable[Thing], ahead: int
) -> Iterator[Any]:
    """Results of ``work`` for each item, in order.

    Args:
        submit: The method ``submit`` of an executor.
        work: Function that the executor calls with an item.
        things: The items, consumed as needed.
        ahead: Maximum number of items in progress or finished ahead of the consumer.
    """
    waiting: deque[Any] = deque()
    for thing in things:
        waiting.append(submit(work, thing))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
