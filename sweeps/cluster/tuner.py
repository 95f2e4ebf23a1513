"""Wires a sweep into Ray Tune: what a trial runs, and what of Tune is asked of the ledger."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import tune as ray_tune

from sweeps.cluster.callback import LedgerCallback
from sweeps.cluster.connection import concurrent_trials
from sweeps.cluster.internals import (
    SweepOverError,
    ended_by_interrupts,
    killed_for_memory,
    processes_kept,
)
from sweeps.cluster.scheduler import LedgerScheduler
from sweeps.cluster.searcher import LedgerSearcher
from sweeps.cluster.slots import Slots
from sweeps.errors import CommandError, SweepFailedError, first_line
from sweeps.formatting import metric_of
from sweeps.search.ledger import Ledger
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import ScalingSection
from trainables.config import EncoderSetup, TrialSetup
from trainables.storage import Folder

if TYPE_CHECKING:
    from trainables.data.base import Data

_WAITING_MEMORY = 256 * 2**20  # of the process of a trial that has several workers, in bytes
_SECONDS_TO_END = 10.0  # for processes that were told to
_MOST_FAULTS = 3  # of Tune's, in which the sweep gets no further

logger = logging.getLogger("calsweep")


def tune(
    ledger: Ledger,
    store: SweepStore,
    dataset: Data,
    encoder: EncoderSetup | None,
    on_notice: Callable[[str], object] = logger.warning,
) -> None:
    """Run what the ledger has to run, on the cluster that is connected.

    Args:
        ledger: The sweep's book.
        store: Where the sweep lies.
        dataset: Its data.
        encoder: The first of two stages, if there are two.
        on_notice: Told what the user should know.

    Raises:
        SweepFailedError: Tune ends again and again, and the sweep gets no further.
    """
    try:
        _tune(ledger, store, dataset, encoder, on_notice)
    finally:
        if ledger.sweep.scaling.num_workers > 1:
            _give_places_back()


def _give_places_back() -> None:
    """The processes that reserved them are ending; in the user's own session nobody else would."""
    from trainables.wrappers.internals import give_back_abandoned_places

    until = time.monotonic() + _SECONDS_TO_END
    with suppress(Exception):  # the cluster may be gone, which has been told
        while give_back_abandoned_places() and time.monotonic() < until:
            time.sleep(0.2)


def _tune(
    ledger: Ledger,
    store: SweepStore,
    dataset: Data,
    encoder: EncoderSetup | None,
    on_notice: Callable[[str], object],
) -> None:
    sweep_id = store.patiently(store.sweep_id, logger.warning)
    slots = Slots(partial(concurrent_trials, ledger.sweep.scaling))
    callback = LedgerCallback(ledger, slots.out_of_memory, on_notice)
    faults, progress = 0, ledger.progress
    while True:
        try:
            with (
                ended_by_interrupts(),
                killed_for_memory(callback.out_of_memory),
                processes_kept(slots, lambda: ledger.live),
            ):
                _tuner(ledger, store, sweep_id, dataset, encoder, slots, callback).fit()
            fault = "it ended before the sweep"
        except SweepOverError:
            break
        except CommandError:  # of our own: another driver has the sweep, say
            raise
        except Exception as error:
            logger.exception("Ray Tune failed")
            fault = f"{type(error).__name__}: {first_line(error)}"
        if ledger.exhausted:
            break
        faults = faults + 1 if ledger.progress == progress else 1
        progress = ledger.progress
        if faults > _MOST_FAULTS:
            raise SweepFailedError(
                f"Ray Tune failed {faults} times in which the sweep got no further ({fault}). What "
                f"has finished is kept; `calsweep resume {store.name}` goes on"
            )
        gc.collect()  # Ray ends actors that nobody holds any more
        ledger.interrupted()
        on_notice(f"Ray Tune failed ({fault}); it is started again")
    with suppress(OSError):  # the storage is away, say: the next driver clears it away
        (store.folder / "tune").delete_tree()  # of no more use


def _tuner(
    ledger: Ledger,
    store: SweepStore,
    sweep_id: str,
    dataset: Data,
    encoder: EncoderSetup | None,
    slots: Slots,
    callback: LedgerCallback,
) -> ray_tune.Tuner:
    from trainables.metrics import METRIC_NAMES

    sweep = ledger.sweep
    scratch = store.folder / "tune"
    setup = TrialSetup(
        model=sweep.trained.name,
        model_options=sweep.trained.options,
        training=sweep.training.config(),
        trials_uri=store.trials_folder.uri,
        outcome_epochs=ledger.outcome_epochs,
        # What Optuna is told of a trial that is stopped there.
        rung_metrics=tuple(
            metric
            for name in (*sweep.objectives, *sweep.search.constraints)
            if (metric := metric_of(name)) in METRIC_NAMES
        ),
        own_metrics=sweep.search.own_metrics,
        threads=sweep.scaling.cpus_per_worker,
        user_paths=(str(Path.cwd()),),
        encoder=encoder,
        marker=(store.folder.uri, sweep_id),
        own_loop=sweep.trainable is not None,
    )
    several = sweep.scaling.num_workers > 1
    make_trainable = _of_several_workers if several else _of_one_process
    return ray_tune.Tuner(
        make_trainable(sweep.scaling, dataset, setup, scratch),
        tune_config=ray_tune.TuneConfig(
            search_alg=LedgerSearcher(ledger, slots),
            scheduler=LedgerScheduler(ledger),
            num_samples=-1,  # the searcher says when it is enough
            reuse_actors=True,
        ),
        run_config=ray_tune.RunConfig(
            name="tune",
            storage_path=store.folder.path if store.folder.is_local else store.folder.uri,
            # Trials keep their checkpoints themselves, under their numbers.
            checkpoint_config=ray_tune.CheckpointConfig(
                checkpoint_frequency=0, checkpoint_at_end=False
            ),
            callbacks=[callback],
            verbose=0,
            progress_reporter=ray_tune.CLIReporter(),  # that of notebooks clears our own view
        ),
    )


def _of_one_process(
    scaling: ScalingSection, dataset: Data, setup: TrialSetup, scratch: Folder
) -> Any:
    from trainables.wrappers.one_process import TuneTrial

    return ray_tune.with_resources(
        ray_tune.with_parameters(TuneTrial, dataset=dataset, trial_setup=setup),
        {"cpu": scaling.cpus_per_worker, "gpu": scaling.gpus},
    )


def _of_several_workers(
    scaling: ScalingSection, dataset: Data, setup: TrialSetup, scratch: Folder
) -> Any:
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
    # The workers get places of their own; the trial's process, which only waits for them, takes no
    # CPU from them, and Tune refuses a trial that takes nothing.
    places = ray_tune.PlacementGroupFactory([{"memory": _WAITING_MEMORY}])
    return ray_tune.with_resources(trial, places)
