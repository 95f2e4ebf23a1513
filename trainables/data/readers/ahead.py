"""Work done ahead, in order, with a limit on unfinished results."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Thing = TypeVar("Thing")


def in_order(
    submit: Callable[..., Any], work: Callable[[Thing], Any], things: Iterable[Thing], ahead: int
) -> Iterator[Any]:
    """Results of ``work`` for each item, in order.

    Args:
        submit: Of an executor.
        work: Called by the executor.
        things: Taken as they are needed.
        ahead: How many are worked on, or done, before the first of them is asked for.
    """
    waiting: deque[Any] = deque()
    for thing in things:
        waiting.append(submit(work, thing))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
