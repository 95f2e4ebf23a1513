"""The Ray Train wrapper: one trial on several devices, data-parallel, inside a Ray Tune trial."""

import os
import threading
from dataclasses import dataclass

import ray
from ray import train, tune
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from trainables.contract.config import TrialSetup, trial_folder
from trainables.contract.messages import Failed, Report, TrialConfig, Waiting, to_tune
from trainables.wrappers.process_group import ProcessGroup
from trainables.wrappers.ray_internals import TRAIN_SETTINGS, release_abandoned_placement_groups
from trainables.wrappers.worker import Mail, Order, TrialFailedError, Work, run_worker

_SECONDS_BETWEEN_LOOKS = 5.0
_SECONDS_TO_END = 5.0


@dataclass(frozen=True)
class Workers:
    """The workers of one trial: their number, and CPUs and GPUs of each.

    ``scratch_uri`` is a folder (path or URI) that all nodes can access, for files of Ray Train.
    """

    count: int
    cpus: float
    gpus: float
    scratch_uri: str


class TuneTrialOfWorkers(tune.Trainable):
    """Runs trials on several workers, one epoch per step; the next trial reuses the workers.

    Reports and checkpoints are those of :class:`~trainables.wrappers.one_process.TuneTrial`. If a
    worker dies, all workers end and the driver gets the error; it retries the trial, which resumes
    from its last checkpoint.
    """

    _group: "_WorkerGroup | None" = None
    _trials = 0

    def setup(
        self,
        config: dict[str, object],
        dataset: list[ray.ObjectRef] | None = None,
        trial_setup: TrialSetup | None = None,
        workers: Workers | None = None,
    ) -> None:
        """Called once per actor; ``dataset`` contains a reference that only workers resolve."""
        assert dataset is not None and trial_setup is not None and workers is not None
        self._given = dataset[0], trial_setup, workers
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, object]) -> bool:
        """Switch to another trial."""
        self._trials += 1
        self._order = Order(self._trials, TrialConfig.from_tune(new_config))
        return True

    def step(self) -> dict[str, object]:
        """Train one epoch; see :func:`~trainables.contract.messages.to_tune`."""
        if self._group is None:
            self._group = _WorkerGroup(*self._given, name=trial_folder(self._order.config.number))
        report = self._group.advance(self._order)
        if isinstance(report, Failed):
            self._group = None
        return to_tune(report)

    def cleanup(self) -> None:
        """Called before the actor ends."""
        if self._group is not None:
            self._group.close()


class _WorkerGroup:
    """Workers started by Ray Train, which execute orders."""

    def __init__(
        self, dataset: ray.ObjectRef, setup: TrialSetup, workers: Workers, name: str
    ) -> None:
        for variable, value in TRAIN_SETTINGS.items():
            os.environ.setdefault(variable, value)
        on_gpus = workers.gpus > 0
        self._mail = ray.remote(num_cpus=0)(Mail).remote(workers.count)
        self._trainer = DataParallelTrainer(
            run_worker,
            train_loop_config={"work": Work(dataset, setup, on_gpus, self._mail)},
            backend_config=ProcessGroup(on_gpus),
            scaling_config=train.ScalingConfig(
                num_workers=workers.count,
                use_gpu=on_gpus,
                resources_per_worker={"CPU": workers.cpus, "GPU": workers.gpus},
            ),
            run_config=train.RunConfig(
                name=f"train_{name}",
                storage_path=workers.scratch_uri,
                # The driver counts failures. Ray would start workers that cannot import forever.
                failure_config=train.FailureConfig(controller_failure_limit=0),
            ),
        )
        self._waits = False  # whether an ordered epoch is waiting for the storage
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=self._fit, daemon=True)
        self._thread.start()

    def _fit(self) -> None:
        try:
            self._trainer.fit()
        except Exception as error:
            self._errors.append(error)
        finally:
            self._mail.tell.remote(None)

    def advance(self, order: Order) -> Report:
        """Train one more epoch of a trial. If it fails or raises, the workers have ended."""
        if not self._waits:
            self._mail.order.remote(order)
        coming = self._mail.next_report.remote()
        while not ray.wait([coming], timeout=_SECONDS_BETWEEN_LOOKS)[0]:
            # The workers may wait for placement groups that a dead trial did not release.
            release_abandoned_placement_groups()
        report: Report | None = ray.get(coming)
        if report is None:
            return self._failure()
        self._waits = isinstance(report, Waiting)
        return report

    def _failure(self) -> Failed:
        """The reason why a trial cannot continue; raises errors after which it may be retried."""
        error = self._errors[0]
        failures: list[Exception] = []
        if isinstance(error, train.WorkerGroupError):
            failures = list(error.worker_failures.values())
        if not failures or not all(isinstance(each, TrialFailedError) for each in failures):
            raise error
        return Failed(*failures[0].args)

    def close(self) -> None:
        """End the workers."""
        self._mail.order.remote(None)
        self._thread.join(_SECONDS_TO_END)
