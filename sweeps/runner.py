"""Runs a sweep from its file to the answer, or goes on with one that was cut off."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sweeps.cluster import connection as cluster
from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.planning.checks import check_sweep
from sweeps.planning.quick_checks import check_at_once_if_doubtful
from sweeps.results.leaderboard import failure_summary, selection_summary
from sweeps.search.ledger import Ledger
from sweeps.search.record import TrialRecord
from sweeps.search.warm_start import earlier_trials
from sweeps.store.driver_log import driver_log
from sweeps.store.encoders import encoder_setup, trained_encoders
from sweeps.store.environment import describe_environment
from sweeps.store.sweep_store import SweepStore, check_storage
from sweeps.sweep_file.schema import ScalingSection, SweepFile
from sweeps.terminal.progress import Progress
from sweeps.tracking.address import check_answers, tracking_uri
from sweeps.tracking.artifacts import ArtifactError
from sweeps.tracking.writer import MlflowWriter
from trainables.config import EncoderSetup, TrialSetup, check_shares, trial_setting
from trainables.storage import Folder

if TYPE_CHECKING:
    from trainables.data.base import Dataset

_PATIENCE_SECONDS = 20.0
_WAITING_MEMORY = 256 * 2**20  # of the process of a trial that has several workers, in bytes


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended.

    Attributes:
        records: All trials.
        summary: See :func:`~sweeps.results.leaderboard.selection_summary`.
        unsynced: Trials that MLflow does not have in full, as it did not answer or as their
            files are damaged.
        tracking_uri: Where MLflow has them.
    """

    records: list[TrialRecord]
    summary: dict[str, Any]
    unsynced: int
    tracking_uri: str


def run_sweep(
    sweep: SweepFile, storage: str, address: str | None = None, console: Console | None = None
) -> SweepResult:
    """Run a new sweep.

    Args:
        sweep: The sweep.
        storage: Path or URI of the sweep store.
        address: Of a Ray cluster; None starts Ray on this machine.
        console: Where progress is shown.

    Raises:
        UserError: Something is wrong with the input; nothing was started or written.
        SweepFailedError: Every trial failed.
        SweepInterruptedError: By Ctrl-C or SIGTERM; :func:`resume_sweep` goes on.
    """
    store = SweepStore(storage, sweep.name)
    check_storage(storage)
    if store.exists():
        store.create(sweep)  # says that the name is taken
    return _run(sweep, store, address, console or Console(stderr=True), new=True)


def resume_sweep(
    name: str, storage: str, address: str | None = None, console: Console | None = None
) -> SweepResult:
    """Go on with a sweep: finished trials stay, cut-off ones continue from their checkpoints.

    Raises:
        UserError: There is no such sweep, or it is being run.
        SweepFailedError: Every trial failed.
        SweepInterruptedError: Once more.
    """
    store = SweepStore(storage, name)
    sweep = store.load_sweep()
    check_storage(storage)
    return _run(sweep, store, address, console or Console(stderr=True), new=False)


def sync_sweep(name: str, storage: str) -> int:
    """Bring MLflow up to date with what the sweep store knows.

    Returns:
        The number of trials.

    Raises:
        UserError: There is no such sweep, it is being run, or MLflow does not answer.
        SweepFailedError: The files of some trials are damaged; all else is up to date.
    """
    store = SweepStore(storage, name)
    sweep = store.load_sweep()
    check_answers(tracking_uri(storage, sweep))
    with store.locked():
        records = store.load_records()
        writer = MlflowWriter(sweep, store, describe_environment())
        damaged = []
        for record in records:
            try:
                writer.sync(record)
            except ArtifactError as error:
                damaged.append(str(error))
        if all(record.state != "running" for record in records):
            writer.finish_sweep("FINISHED", _without_nan(selection_summary(records, sweep)))
    if damaged:
        raise SweepFailedError("not in MLflow in full:\n" + "\n".join(damaged))
    return len(records)


def _run(
    sweep: SweepFile, store: SweepStore, address: str | None, console: Console, new: bool
) -> SweepResult:
    check_at_once_if_doubtful(sweep)
    earlier = earlier_trials(sweep, store.storage) if new else []
    with Progress(console) as progress:
        check_answers(tracking_uri(store.storage, sweep))
        where = "starting Ray" if address is None else f"joining Ray at {address}"
        progress.stage(f"Loading {sweep.dataset.label} and {where}")
        with ThreadPoolExecutor(1) as aside:
            # Importing torch and starting Ray take some seconds each, and different things.
            loading = aside.submit(_checked_data, sweep)
            dashboard = sweep.scaling.num_workers > 1
            with cluster.connected(address, dashboard), _terminated_as_interrupted():
                cluster.check_room(sweep.scaling, address)
                dataset = loading.result()
                if new:
                    store.create(sweep, [asdict(trial) for trial in earlier])
                with store.locked(progress.stage), driver_log(store) as log:
                    return _carry_out(sweep, store, dataset, progress, log)


def _carry_out(
    sweep: SweepFile, store: SweepStore, dataset: Dataset, progress: Progress, log: Path
) -> SweepResult:
    writer = MlflowWriter(sweep, store, describe_environment())
    records = [_with_history(sweep, store, record) for record in store.load_records()]
    encoder = encoder_setup(sweep, store.storage, dataset)
    ledger = Ledger(
        sweep,
        store,
        dataset.num_classes,
        records,
        listeners=(writer.submit, progress.tick),
        trained_encoders=trained_encoders(sweep, encoder),
        on_fault=progress.fault,
    )
    for record in records:
        writer.submit(record)
    progress.stage("Starting the first trials")
    progress.follow(ledger)
    interrupted = True
    try:
        if not ledger.exhausted:
            _tune(sweep, store, dataset, ledger, encoder)
        interrupted = False
    except KeyboardInterrupt:
        raise SweepInterruptedError(
            f"interrupted; `calsweep resume {sweep.name}` goes on from here"
        ) from None
    finally:
        summary = selection_summary(ledger.records, sweep)
        unsynced = _finish_tracking(writer, ledger, summary, progress, interrupted)
    if all(record.state == "failed" for record in ledger.records):
        raise SweepFailedError(
            f"every trial of {sweep.name!r} failed:\n{failure_summary(ledger.records)}\n"
            f"more is in the log, {log}"
        )
    return SweepResult(ledger.records, summary, unsynced, tracking_uri(store.storage, sweep))


def _tune(
    sweep: SweepFile,
    store: SweepStore,
    dataset: Dataset,
    ledger: Ledger,
    encoder: EncoderSetup | None,
) -> None:
    from ray import tune

    from sweeps.cluster.tuning import LedgerCallback, LedgerSearcher, SweepOverError, make_scheduler

    tune_folder = store.folder / "tune"
    setup = TrialSetup(
        model=sweep.model.name,
        model_options=sweep.model.options,
        training=sweep.training.config(),
        trials_uri=store.trials_folder.uri,
        outcome_epochs=sweep.outcome_epochs,
        threads=sweep.scaling.cpus_per_worker,
        user_paths=(str(Path.cwd()),),
        encoder=encoder,
    )
    several = sweep.scaling.num_workers > 1
    make_trainable = _trainable_of_several_workers if several else _trainable_of_one_worker
    tuner = tune.Tuner(
        make_trainable(sweep.scaling, dataset, setup, tune_folder),
        tune_config=tune.TuneConfig(
            search_alg=LedgerSearcher(ledger, cluster.slots(sweep.scaling)),
            scheduler=make_scheduler(sweep, ledger),
            num_samples=-1,  # the searcher says when it is enough
            reuse_actors=not several,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=store.folder.path if store.folder.is_local else store.folder.uri,
            # Trials keep their checkpoints themselves, under their numbers.
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=0, checkpoint_at_end=False
            ),
            callbacks=[LedgerCallback(ledger)],
            verbose=0,
        ),
    )
    with suppress(SweepOverError):
        tuner.fit()
    tune_folder.delete_tree()  # of no more use


def _trainable_of_one_worker(
    scaling: ScalingSection, dataset: Dataset, setup: TrialSetup, scratch: Folder
) -> Any:
    from ray import tune

    from trainables.wrappers.one_process import TuneTrial

    return tune.with_resources(
        tune.with_parameters(TuneTrial, dataset=dataset, trial_setup=setup),
        {"cpu": scaling.cpus_per_worker, "gpu": scaling.gpus_per_worker},
    )


def _trainable_of_several_workers(
    scaling: ScalingSection, dataset: Dataset, setup: TrialSetup, scratch: Folder
) -> Any:
    import ray
    from ray import tune

    from trainables.wrappers.several_workers import Workers, train_trial

    data = ray.put(dataset)
    workers = Workers(
        count=scaling.num_workers,
        cpus=scaling.cpus_per_worker,
        gpus=scaling.gpus_per_worker,
        scratch_uri=scratch.path if scratch.is_local else scratch.uri,
    )

    def trial(config: dict[str, Any]) -> None:
        train_trial(config, data, setup, workers)

    # The workers get places of their own; the trial's process, which only waits for them, takes no
    # CPU from them, and Tune refuses a trial that takes nothing.
    return tune.with_resources(trial, tune.PlacementGroupFactory([{"memory": _WAITING_MEMORY}]))


def _checked_data(sweep: SweepFile) -> Dataset:
    check_sweep(sweep)
    dataset = load_data(sweep)
    for key, recipe in sweep.recipes:
        try:
            check_shares(len(dataset.train), recipe.batch_size, sweep.scaling.num_workers)
        except ValueError as error:
            raise UserError(f"{key}.{error}") from None
    return dataset


def load_data(sweep: SweepFile) -> Dataset:
    """The sweep's dataset, split by the sweep's seed.

    Raises:
        UserError: It cannot be loaded.
    """
    from trainables.data import load_dataset

    try:
        return load_dataset(sweep.dataset.name, seed=sweep.search.seed, **sweep.dataset.options)
    except (ValueError, TypeError, OSError) as error:
        raise UserError(f"dataset: {error}") from None


def _with_history(sweep: SweepFile, store: SweepStore, record: TrialRecord) -> TrialRecord:
    """A record that was still running, with the epochs that its last checkpoint knows of."""
    if record.state == "running":
        from trainables.checkpoints import load_checkpoint

        setting = trial_setting(
            sweep.model.name,
            sweep.model.options,
            role=record.role,
            loss=record.loss,
            hyperparameters=record.hyperparameters,
            seed=record.seed,
        )
        state = load_checkpoint(store.trial_folder(record.number) / "checkpoints", setting)
        record.history = list(state["history"]) if state else []
    return record


def _finish_tracking(
    writer: MlflowWriter,
    ledger: Ledger,
    summary: dict[str, Any],
    progress: Progress,
    interrupted: bool,
) -> int:
    progress.stage("Writing to MLflow")
    unsynced = writer.close(patience=_PATIENCE_SECONDS)
    if writer.behind == 0 and not interrupted:
        failed = all(record.state == "failed" for record in ledger.records)
        writer.finish_sweep("FAILED" if failed else "FINISHED", _without_nan(summary))
    return unsynced


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a sweep as Ctrl-C does: in order, and resumable."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        previous = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone may handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
