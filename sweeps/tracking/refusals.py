"""Distinguishes refusals by MLflow from lost replies, overload and a server that is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from sweeps.errors import first_line
from sweeps.tracking.experiment import deleted
from sweeps.tracking.retrying import is_refusal
from sweeps.tracking.rights import writes_to

Lack = Literal["later", "refused", "deleted", "damaged"]


class NotTakenError(Exception):
    """MLflow answers but does not take one run. The message names the trial and the cause.

    Attributes:
        lack: ``later``: a lost reply, an overload or a storage that is away kept it from it;
            ``refused``: MLflow refuses it; ``deleted``: the run was deleted in MLflow, and can be
            restored there; ``damaged``: its files cannot be gathered.
    """

    def __init__(self, lack: Lack, message: str) -> None:
        super().__init__(message)
        self.lack = lack


@contextmanager
def blamed(client: Any, experiment: Any, who: str, run_id: str) -> Iterator[None]:
    """Context: after an error, ask MLflow what it concerns.

    `run_id` is empty if the run does not exist yet.

    Raises:
        NotTakenError: MLflow answers, but does not take this run.
        Exception: Any error of MLflow, if it does not answer.
    """
    try:
        with writes_to(experiment.name):
            yield
    except NotTakenError:
        raise
    except Exception as error:
        with writes_to(experiment.name):
            now = client.get_experiment(experiment.experiment_id)
        if deleted(now):
            raise NotTakenError(
                "refused", f"{who} is lost: the experiment {now.name!r} was deleted in MLflow"
            ) from error
        if run_id and _is_gone(client, run_id):
            raise NotTakenError("deleted", f"{who} was deleted in MLflow") from error
        if is_refusal(error):
            raise NotTakenError(
                "refused", f"{who} is refused by MLflow: {first_line(error)}"
            ) from error
        raise NotTakenError("later", f"{who} cannot be written now: {first_line(error)}") from error


def _is_gone(client: Any, run_id: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        return deleted(client.get_run(run_id))
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return True
