"""Distinguishes refusals by MLflow from lost replies, overload and a server that is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sweeps.errors import first_line
from sweeps.tracking.artifacts import ArtifactError, FilesAwayError
from sweeps.tracking.experiment import deleted
from sweeps.tracking.retrying import is_refusal
from sweeps.tracking.rights import writes_to


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


def _is_gone(client: Any, run_id: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        return deleted(client.get_run(run_id))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return True
