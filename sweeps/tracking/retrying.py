"""Retries calls of MLflow whose reply is lost, each alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from sweeps.tracking.rights import status_of

_PAUSES: Final = 0.1, 0.2, 0.5, 1.0  # seconds between tries
_SECONDS: Final = 5.0  # after which a call is not tried again: the server is away
_NOW: Final = 408, 429  # statuses that only ask to try later
_MISPLACED: Final = FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError
# Repeating one of these changes nothing. Creating twice would make two.
_REPEATABLE: Final = "get_", "search_", "set_", "log_", "update_"

P = ParamSpec("P")
T = TypeVar("T")


class PatientClient:
    """MLflow's client, which retries the calls that may be repeated."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return partial(persistently, found) if name.startswith(_REPEATABLE) else found


def persistently(act: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call a function; retry with pauses for some seconds, unless the error is a refusal."""
    until = time.monotonic() + _SECONDS
    for pause in _PAUSES:
        try:
            return act(*arguments, **options)
        except Exception as error:
            if is_refusal(error) or time.monotonic() > until:
                raise
            time.sleep(pause)
    return act(*arguments, **options)


def is_refusal(error: Exception) -> bool:
    """Whether repeating a request is useless: a status 4xx, or a file in place of a folder."""
    status = status_of(error)
    if status is None:
        return isinstance(error, _MISPLACED)
    return 400 <= status < 500 and status not in _NOW
