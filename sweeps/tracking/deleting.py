"""Deletes a sweep's runs in MLflow, with their files."""

from __future__ import annotations

from contextlib import suppress

from sweeps.errors import UserError, first_line
from sweeps.tracking.address import make_client
from sweeps.tracking.experiment import our_experiments, pages
from sweeps.tracking.rights import NoRightError, writes_to
from sweeps.tracking.run_files import RunFiles


def delete_runs(uri: str, sweep_id: str) -> int:
    """Delete the runs of a sweep and their files; returns how many.

    None is deleted if a registered model is among their files. MLflow keeps deleted runs, without
    their files, until `mlflow gc`.

    Raises:
        UserError: MLflow refuses or does not answer.
    """
    from mlflow.exceptions import MlflowException

    condition = f"tags.`calsweep.sweep_id` = '{sweep_id}'"
    try:
        client = make_client(uri)
        found = [
            (experiment, run)
            for experiment in our_experiments(client)
            for page in pages(client.search_runs, [experiment.experiment_id], condition)
            for run in page
        ]
        if any(client.search_model_versions(f"run_id = '{r.info.run_id}'") for _, r in found):
            return 0
        for experiment, run in found:
            with suppress(Exception):  # there are no files, or no right; each kind raises others
                RunFiles.of(run, client.tracking_uri).delete()
            with writes_to(experiment.name):
                client.delete_run(run.info.run_id)
    except (MlflowException, NoRightError) as error:
        raise UserError(f"its runs in MLflow are not deleted: {first_line(error)}") from None
    return len(found)
