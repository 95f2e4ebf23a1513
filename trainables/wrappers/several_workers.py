"""The Ray Train wrapper: one trial on several devices, data-parallel, inside a Ray Tune trial."""

from __future__ import annotations

import os
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any

import ray
from ray import train, tune
from ray.util.queue import Empty, Queue

from trainables.config import TrialSetup, trial_folder
from trainables.internals import lost_a_peer
from trainables.report import Failed, TrialConfig, Waits, to_tune
from trainables.wrappers.internals import (
    TRAIN_SETTINGS,
    give_back_abandoned_places,
    keep_train_to_this_cluster,
)
from trainables.wrappers.one_process import SECONDS_BETWEEN_TRIES

_SECONDS_BETWEEN_LOOKS = 15.0


@dataclass(frozen=True)
class Workers:
    """The workers of one trial.

    Attributes:
        count: How many.
        cpus: CPUs of each.
        gpus: GPUs of each.
        scratch_uri: Folder (path or URI) that all nodes reach, for Ray Train's own small files.
    """

    count: int
    cpus: float
    gpus: float
    scratch_uri: str


class TrialFailedError(Exception):
    """A trial cannot go on: ``args`` are the fields of a :class:`~trainables.report.Failed`."""


def train_trial(
    config: TrialConfig, dataset: ray.ObjectRef, trial_setup: TrialSetup, workers: Workers
) -> None:
    """Runs a trial (:func:`~trainables.trial.make_run`) on several workers.

    Reports to Tune what :class:`~trainables.wrappers.one_process.TuneTrial` does. As there, the
    trial keeps its checkpoints itself. When a worker dies the error reaches the sweep's driver,
    where the trial comes again, to go on from its last checkpoint.

    Args:
        config: The trial.
        dataset: In Ray's object store, where the workers of a node read it without copying.
        trial_setup: What all trials share.
        workers: How many, and what each of them has.
    """
    from ray.train.torch import TorchTrainer

    for name, value in TRAIN_SETTINGS.items():
        os.environ.setdefault(name, value)
    keep_train_to_this_cluster()
    reports = Queue(actor_options={"num_cpus": 0})
    trainer = TorchTrainer(
        _run_worker,
        train_loop_config={
            "config": config,
            "dataset": dataset,
            "setup": trial_setup,
            "on_gpus": workers.gpus > 0,
            "reports": reports,
        },
        scaling_config=train.ScalingConfig(
            num_workers=workers.count,
            use_gpu=workers.gpus > 0,
            resources_per_worker={"CPU": workers.cpus, "GPU": workers.gpus},
        ),
        run_config=train.RunConfig(
            name=f"train_{trial_folder(config.number)}",
            storage_path=workers.scratch_uri,
            callbacks=[_PassOn(reports)],
        ),
    )
    errors: list[Exception] = []

    def fit() -> None:
        try:
            trainer.fit()
        except Exception as error:
            errors.append(error)
        finally:
            reports.put(None)

    threading.Thread(target=fit, daemon=True).start()
    while True:
        try:
            result = reports.get(timeout=_SECONDS_BETWEEN_LOOKS)
        except Empty:  # it may wait for places that a trial that died has left reserved
            give_back_abandoned_places()
            continue
        if result is None:
            break
        tune.report(result)
    if errors:
        _tell_failure(errors[0])


class _PassOn(train.UserCallback):
    """Passes the first worker's reports on to the trial's process.

    With Ray's own ``TuneReportCallback`` the end of a trial may overtake its last report, and to
    Tune the trial was stopped an epoch early.
    """

    def __init__(self, reports: Queue) -> None:
        self._reports = reports

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any
    ) -> None:
        self._reports.put(metrics[0])


def _tell_failure(error: Exception) -> None:
    """Report why a trial cannot go on; raise what it may go on after."""
    failures = (
        list(error.worker_failures.values()) if isinstance(error, train.WorkerGroupError) else []
    )
    if not failures or not all(isinstance(each, TrialFailedError) for each in failures):
        raise error
    tune.report(to_tune(Failed(*failures[0].args)))


def _run_worker(loop_config: dict[str, Any]) -> None:
    """What each worker does, with its torch process group set up."""
    import torch
    from ray.train.torch import get_device

    from trainables.trial import make_run

    device = get_device() if loop_config["on_gpus"] else torch.device("cpu")  # gloo's
    run = make_run(
        ray.get(loop_config["dataset"]), loop_config["setup"], loop_config["config"], device
    )
    done = False
    while not done:
        try:
            report = run.advance()
        except Exception as error:
            if lost_a_peer(error):
                raise
            reason = f"{type(error).__name__}: {error}"
            raise TrialFailedError(reason, traceback.format_exc()) from None
        match report:
            case Failed():
                raise TrialFailedError(report.reason, report.traceback)
            case Waits():  # the first worker alone, and what it reports to Train all have to
                loop_config["reports"].put(to_tune(report))
                time.sleep(SECONDS_BETWEEN_TRIES)
            case _:
                done = report.done
                train.report(to_tune(report))
    run.close()
