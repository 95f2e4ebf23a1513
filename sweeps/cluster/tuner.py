"""Runs a sweep's trials with Ray Tune."""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import ray
from ray import tune as ray_tune

from sweeps.cluster import Announcement
from sweeps.cluster.connection import LostNodes, concurrent_trials
from sweeps.cluster.ray_internals import killed_for_memory, no_long_waits, processes_kept
from sweeps.cluster.slots import Slots, announced, fair_share
from sweeps.cluster.tune_hooks import (
    Outside,
    QueueCallback,
    QueueScheduler,
    QueueSearcher,
    SweepOverError,
)
from sweeps.cluster.worker_server import log_if_not_forked
from sweeps.errors import CommandError, SweepFailedError, cause
from sweeps.messages.formatting import resume_command
from sweeps.messages.reporter import LOG, Reporter, logger
from sweeps.search.trial_queue import TrialQueue
from sweeps.store.driver_log import log_path
from sweeps.store.requests import Inbox
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.sections.resources import ScalingSection
from trainables.contract.config import TrialSetup
from trainables.files.storage import Folder

if TYPE_CHECKING:
    from trainables.data.core.base import Data

_WAITING_MEMORY = 256 * 2**20  # bytes for the process of a trial with several workers
_SECONDS_TO_END = 10.0  # for processes to end
_MOST_FAULTS = 3  # failures of Tune without progress


def tune(
    queue: TrialQueue,
    setup: TrialSetup,
    dataset: Data,
    store: SweepStore,
    reporter: Reporter = LOG,
) -> None:
    """Run the queue's trials on the connected cluster.

    Raises:
        SweepFailedError: Tune failed repeatedly while the sweep made no progress.
    """
    log_if_not_forked()
    try:
        priority = queue.plan.sweep.scaling.priority
        with announced(Announcement(store.name, priority)):
            _tune(queue, setup, dataset, store, reporter)
    finally:
        log_if_not_forked()  # its imports take seconds
        if queue.plan.sweep.scaling.num_workers > 1:
            _release_placement_groups()


def _release_placement_groups() -> None:
    """Release them here, because in the user's own Ray session no other process does."""
    from trainables.wrappers.ray_internals import release_abandoned_placement_groups

    until = time.monotonic() + _SECONDS_TO_END
    with suppress(Exception):  # the cluster may have gone, which was reported before
        while release_abandoned_placement_groups() and time.monotonic() < until:
            time.sleep(0.2)


def _tune(
    queue: TrialQueue,
    setup: TrialSetup,
    dataset: Data,
    store: SweepStore,
    reporter: Reporter,
) -> None:
    from trainables.wrappers.ray_internals import draining_nodes

    trainable = _trainable(queue.plan.sweep.scaling, dataset, setup, store.folder / "tune")
    slots = Slots(lambda: fair_share(concurrent_trials(queue.plan.sweep.scaling)))
    callback = QueueCallback(
        queue,
        slots.out_of_memory,
        reporter,
        Outside(store.check_held, lambda: bool(draining_nodes()), LostNodes(), Inbox(store.folder)),
    )
    faults, progress = 0, queue.progress
    while True:
        scheduler = callback.scheduler = QueueScheduler(queue)
        try:
            with (
                killed_for_memory(callback.out_of_memory),
                processes_kept(slots, lambda: queue.live),
                no_long_waits(),
            ):
                _tuner(store, trainable, QueueSearcher(queue, slots), scheduler, callback).fit()
            fault = "it ended before the sweep"
        except KeyboardInterrupt:
            scheduler.end_processes()
            raise
        except SweepOverError:
            break
        except CommandError:  # calsweep's own errors, for example if another driver has the sweep
            raise
        except Exception as error:
            logger.exception("Ray Tune failed")
            fault = cause(error)
        if queue.exhausted:
            break
        faults = faults + 1 if queue.progress == progress else 1
        progress = queue.progress
        if faults > _MOST_FAULTS:
            again = resume_command(store.name, store.storage)
            raise SweepFailedError(
                f"Ray Tune failed {faults} times without progress of the sweep ({fault}). Finished "
                f"trials are kept; {again} continues it; traceback in {log_path(store)}"
            )
        gc.collect()  # Ray ends actors without references
        left = "1 trial continues" if queue.live == 1 else f"{queue.live} trials continue"
        queue.interrupted()
        reporter.notice(
            f"Ray Tune failed ({fault}) and is restarted; {left}; traceback in {log_path(store)}"
        )
    with suppress(OSError):  # for example if the storage is unreachable: the next driver deletes it
        (store.folder / "tune").delete_tree()  # no longer needed


def _trainable(scaling: ScalingSection, dataset: Data, setup: TrialSetup, scratch: Folder) -> Any:
    if scaling.num_workers > 1:
        return _of_several_workers(scaling, dataset, setup, scratch)
    from trainables.wrappers.one_process import TuneTrial
    from trainables.wrappers.reservation import Reservation

    return ray_tune.with_resources(
        ray_tune.with_parameters(TuneTrial, dataset=dataset, trial_setup=setup),
        Reservation({"CPU": scaling.cpus_per_worker, "GPU": scaling.gpus}),
    )


def _tuner(
    store: SweepStore,
    trainable: Any,
    searcher: QueueSearcher,
    scheduler: QueueScheduler,
    callback: QueueCallback,
) -> ray_tune.Tuner:
    return ray_tune.Tuner(
        trainable,
        tune_config=ray_tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            num_samples=-1,  # the searcher decides when to end
            reuse_actors=True,
        ),
        run_config=ray_tune.RunConfig(
            name="tune",
            storage_path=store.folder.path if store.folder.is_local else store.folder.uri,
            # Trials store their own checkpoints, under their numbers.
            checkpoint_config=ray_tune.CheckpointConfig(
                checkpoint_frequency=0, checkpoint_at_end=False
            ),
            callbacks=[callback],
            verbose=0,
            progress_reporter=ray_tune.CLIReporter(),  # Tune's own clears our view in notebooks
        ),
    )


def _of_several_workers(
    scaling: ScalingSection, dataset: Data, setup: TrialSetup, scratch: Folder
) -> Any:
    from trainables.wrappers.reservation import Reservation
    from trainables.wrappers.several_workers import TuneTrialOfWorkers, Workers

    workers = Workers(
        count=scaling.num_workers,
        cpus=scaling.cpus_per_worker,
        gpus=scaling.gpus,
        scratch_uri=scratch.path if scratch.is_local else scratch.uri,
    )
    trial = ray_tune.with_parameters(
        TuneTrialOfWorkers, dataset=[ray.put(dataset)], trial_setup=setup, workers=workers
    )
    # The workers reserve their own resources. The trial's process only waits for them, so it takes
    # no CPU. Tune refuses a trial that reserves nothing, hence these few bytes.
    return ray_tune.with_resources(trial, Reservation({"memory": _WAITING_MEMORY}))
