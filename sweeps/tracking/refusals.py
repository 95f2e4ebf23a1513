"""Distinguishes refusals by MLflow from lost replies, overload and a server that is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar

from sweeps.errors import first_line
from sweeps.tracking.artifacts import ArtifactError, FilesAwayError
from sweeps.tracking.experiment import deleted
from sweeps.tracking.rights import NoRightError, writes_to

TRIES: Final = 3  # of a run that MLflow refuses
_SECONDS: Final = 0.5, 1.0, 2.0, 4.0, 8.0  # between tries if a reply is lost
_NOW: Final = 408, 429  # statuses that only ask to try later
_MISPLACED: Final = FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError

P = ParamSpec("P")
T = TypeVar("T")


class RunRefusedError(Exception):
    """MLflow answers but refuses one run. The message names the trial and the cause."""


class RunUnansweredError(Exception):
    """MLflow answers, but a lost reply or an overload kept it from taking a run; it can be retried.

    The message names the trial and the cause.
    """


class RunDeletedError(RunRefusedError):
    """A run was deleted in MLflow; it can be restored there."""


@contextmanager
def blamed(client: Any, experiment: Any, who: str, run_id: str) -> Iterator[None]:
    """Context: after an error, ask MLflow what it concerns.

    `run_id` is empty if the run does not exist yet.

    Raises:
        RunDeletedError: The run was deleted.
        RunRefusedError: MLflow refuses this run.
        RunUnansweredError: MLflow answers now, so the run can be tried again.
        Exception: Any error of MLflow, if it does not answer.
    """
    try:
        with writes_to(experiment.name):
            yield
    except (ArtifactError, FilesAwayError):
        raise
    except Exception as error:
        with writes_to(experiment.name):
            now = client.get_experiment(experiment.experiment_id)
        if deleted(now):
            raise RunRefusedError(
                f"{who} is lost: the experiment {now.name!r} was deleted in MLflow"
            ) from error
        if run_id and _is_gone(client, run_id):
            raise RunDeletedError(f"{who} was deleted in MLflow") from error
        if is_refusal(error):
            raise RunRefusedError(f"{who} is refused by MLflow: {first_line(error)}") from error
        raise RunUnansweredError(f"{who} cannot be written now: {first_line(error)}") from error


def is_refusal(error: Exception) -> bool:
    """Whether repeating a request is useless: a status 4xx, or a file in place of a folder."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is None and hasattr(error, "get_http_status_code"):
        status = error.get_http_status_code()
    if status is None:
        return isinstance(error, _MISPLACED)
    return bool(400 <= status < 500 and status not in _NOW)


def persistently(act: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call a function of MLflow; retry with pauses unless the error is a refusal."""
    for seconds in _SECONDS:
        try:
            return act(*arguments, **options)
        except (ArtifactError, FilesAwayError, NoRightError, RunRefusedError):
            raise
        except Exception as error:
            if is_refusal(error):
                raise
            time.sleep(seconds)
    return act(*arguments, **options)


def _is_gone(client: Any, run_id: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        return deleted(client.get_run(run_id))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return True
