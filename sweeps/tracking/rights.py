"""Messages about missing permissions in MLflow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class NoRightError(Exception):
    """MLflow answers, but its user lacks a permission."""


@contextmanager
def needs_right(what: str, remedy: str) -> Iterator[None]:
    """Context: turns MLflow's errors about missing permissions into a NoRightError."""
    try:
        yield
    except Exception as error:
        if not is_denied(error):
            raise
        user = os.environ.get("MLFLOW_TRACKING_USERNAME")
        who = f"the user {user!r}" if user else "this user"
        raise NoRightError(f"{who} has no right to {what}; {remedy}") from error


def writes_to(experiment: str) -> AbstractContextManager[None]:
    """:func:`needs_right` for writing to the experiment of this name."""
    return needs_right(
        f"write to the experiment {experiment!r}",
        "ask for EDIT on it, or name another one as tracking.experiment",
    )


def is_denied(error: Exception) -> bool:
    """Whether a permission is missing."""
    return status_of(error) == 403


def status_of(error: Exception) -> int | None:
    """The HTTP status of an error of MLflow, or of requests, which raises those of files."""
    response = getattr(error, "response", None)
    if response is None and hasattr(error, "get_http_status_code"):
        return int(error.get_http_status_code())
    return getattr(response, "status_code", None)
