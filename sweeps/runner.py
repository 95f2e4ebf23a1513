"""Runs a sweep from its file to the answer, or goes on with one that was cut off."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.cluster import connection
from sweeps.cluster.devices import settle_devices
from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError, first_line
from sweeps.formatting import counted, format_value
from sweeps.planning.checks import check_sweep
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.quick_checks import check_at_once_if_doubtful
from sweeps.results.comparison import Comparison, compare
from sweeps.results.explanation import answer, failure_summary
from sweeps.search.ledger import Ledger
from sweeps.search.noise import CALIBRATED, first_at_noise
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.warm_start import earlier_trials
from sweeps.store.blocks import BlockWriter
from sweeps.store.driver_log import driver_log
from sweeps.store.encoders import encoder_setup, trained_encoders
from sweeps.store.identity import go_on, identify, identity_files
from sweeps.store.mistakes import keep_mistakes
from sweeps.store.sweep_store import SweepStore, check_storage
from sweeps.sweep_file.loading import with_other_budgets
from sweeps.sweep_file.schema import OWN_DATA, SweepFile
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from sweeps.tracking.address import check_answers, tracking_uri
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.story import Ending
from sweeps.tracking.writer import MlflowWriter
from trainables.config import trial_setting

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.data.base import Data

logger = logging.getLogger("calsweep")

_PATIENCE_SECONDS = 20.0


OnAnswer = Callable[[dict[str, Any]], None]


def _nothing(summary: dict[str, Any]) -> None:
    """Wait for the result."""


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended.

    Attributes:
        records: All trials.
        answer: See :func:`~sweeps.results.explanation.answer`.
        unsynced: Trials that MLflow does not have in full, as it did not answer or as their
            files are damaged.
        tracking_uri: Where MLflow has them.
    """

    records: list[TrialRecord]
    answer: dict[str, Any]
    unsynced: int
    fault: str | None
    tracking_uri: str


def run_sweep(
    sweep: SweepFile,
    storage: str,
    address: str | None = None,
    console: Console | None = None,
    on_answer: OnAnswer = _nothing,
) -> SweepResult:
    """Run a new sweep.

    Args:
        sweep: The sweep.
        storage: Path or URI of the sweep store.
        address: Of a Ray cluster; None starts Ray on this machine.
        console: Where progress is shown.
        on_answer: Called with the summary as soon as there is one, while MLflow is still written.

    Raises:
        UserError: Something is wrong with the input; nothing was started or written.
        SweepFailedError: Every trial failed.
        SweepInterruptedError: By Ctrl-C or SIGTERM; :func:`resume_sweep` goes on.
    """
    store = SweepStore(storage, sweep.name)
    check_storage(storage)
    if store.exists():
        store.create(sweep)  # says that the name is taken
    return _run(sweep, store, address, console or plain_console(stderr=True), on_answer, True)


def resume_sweep(
    name: str,
    storage: str,
    address: str | None = None,
    console: Console | None = None,
    on_answer: OnAnswer = _nothing,
    overrides: Sequence[str] | Mapping[str, Any] = (),
) -> SweepResult:
    """Go on with a sweep: finished trials stay, cut-off ones continue from their checkpoints.

    Args:
        name: Of the sweep.
        storage: As for :func:`run_sweep`, as are those below.
        address: Of a Ray cluster.
        console: Where progress is shown.
        on_answer: Called with the summary.
        overrides: Other budgets than it had, as for
            :func:`~sweeps.sweep_file.loading.with_other_budgets`.

    Raises:
        UserError: There is no such sweep, or it is being run; or it came to its answer and is to
            have another budget.
        SweepFailedError: Every trial failed.
        SweepInterruptedError: Once more.
    """
    store = SweepStore(storage, name)
    sweep = with_other_budgets(store.load_sweep(), overrides)
    check_storage(storage)
    if overrides and store.load_answer() is not None:
        raise UserError(
            f"sweep {name!r} has come to its answer, and has no use for another budget; a new "
            f"sweep with search.warm_start = {name} learns from it"
        )
    return _run(sweep, store, address, console or plain_console(stderr=True), on_answer, False)


def _run(
    sweep: SweepFile,
    store: SweepStore,
    address: str | None,
    console: Console,
    on_answer: OnAnswer,
    new: bool,
) -> SweepResult:
    check_at_once_if_doubtful(sweep)
    earlier = earlier_trials(sweep, _named_sweeps(sweep, store.storage)) if new else []
    with Progress(console) as progress:
        check_answers(tracking_uri(store.storage, sweep))
        where = "starting Ray" if address is None else f"joining Ray at {address}"
        progress.stage(f"Loading {sweep.dataset.label} and {where}")
        with ThreadPoolExecutor(1) as aside:
            # Importing torch and starting Ray take some seconds each, and different things.
            loading = aside.submit(_fitted_data, sweep)
            identifying = aside.submit(lambda: identify(*loading.result()))
            with (
                connection.connected(address, progress.stage),
                _terminated_as_interrupted(),
            ):
                connection.check_room(sweep.scaling, address)
                sweep, dataset = loading.result()
                for note in dataset.notes:
                    progress.notice(note)
                sweep, decided = settle_devices(sweep, dataset)
                if decided is not None:
                    progress.notice(decided)
                    connection.check_room(sweep.scaling, address)
                identity = identifying.result()
                if new:
                    store.create(sweep, earlier, identity_files(identity))
                with store.locked(progress.stage), driver_log(store) as log:
                    if not new:
                        store.change(sweep)
                    for line in () if new else go_on(sweep.name, store.folder, identity):
                        progress.notice(line)
                        logger.warning(line)
                    return _carry_out(sweep, store, dataset, progress, on_answer, log)


def _carry_out(
    sweep: SweepFile,
    store: SweepStore,
    dataset: Data,
    progress: Progress,
    on_answer: OnAnswer,
    log: Path,
) -> SweepResult:
    mirror = store.patiently(partial(Mirror, sweep, store), progress.fault)
    writer = MlflowWriter(mirror, progress.notice)
    records = store.patiently(partial(_load_records, sweep, store, progress), progress.fault)
    blocks = store.patiently(partial(BlockWriter, store.folder, records), progress.fault)
    encoder = store.patiently(partial(encoder_setup, sweep, store, dataset), progress.fault)
    ledger = Ledger(
        sweep,
        partial(store.save_patiently, on_fault=progress.fault),
        dataset.num_classes,
        records,
        store.patiently(store.load_earlier, progress.fault),
        listeners=(blocks.take, writer.submit, progress.tick),
        trained_encoders=store.patiently(partial(trained_encoders, sweep, encoder), progress.fault),
        on_fault=progress.fault,
    )
    for record in records:
        writer.submit(record)
    progress.stage("Starting the first trials")
    progress.follow(ledger)
    try:
        if not ledger.exhausted:
            from sweeps.cluster.tuner import tune

            with _machines_watched(sweep, writer, progress):
                tune(ledger, store, dataset, encoder, progress.notice)
    except BaseException as error:
        progress.stage("Writing to MLflow")
        writer.close(_PATIENCE_SECONDS)
        if not isinstance(error, KeyboardInterrupt):
            raise
        raise SweepInterruptedError(
            f"interrupted; `calsweep resume {sweep.name}` goes on from here"
        ) from None
    progress.stage("Comparing the choice with cross-entropy")
    ending = _ending(ledger, store, progress)
    if not ledger.cut_short:
        store.save_answer(ending.answer, progress.fault)
        keep_mistakes(store, ending.ranking, dataset)
    failed = ending.status == "FAILED"
    if not failed:
        progress.end()
        on_answer(ending.answer)
    unsynced = _write_the_rest(writer, ending, sweep, progress)
    if failed:
        raise SweepFailedError(
            f"every trial of {sweep.name!r} failed:\n{failure_summary(ledger.records)}\n"
            f"more is in the log, {log}"
        )
    if sweep.tracking.register_model and not ledger.cut_short and ending.ranking.chosen is not None:
        _register(store, sweep, ending.ranking, dataset, writer.fault, progress)
    uri = tracking_uri(store.storage, sweep)
    return SweepResult(ledger.records, ending.answer, unsynced, writer.fault, uri)


def _write_the_rest(
    writer: MlflowWriter, ending: Ending, sweep: SweepFile, progress: Progress
) -> int:
    """Bring MLflow up to date, showing how far it is; how many trials could not be.

    Raises:
        SweepInterruptedError: By Ctrl-C or SIGTERM; the answer stands.
    """

    def tell(behind: int) -> None:
        progress.left(f"Writing to MLflow, {counted(behind, 'trial')} left")

    try:
        return writer.close(_PATIENCE_SECONDS, ending, tell)
    except KeyboardInterrupt:
        raise SweepInterruptedError(
            "interrupted; the sweep store has all of it, and "
            f"`calsweep sync {sweep.name}` brings MLflow up to date"
        ) from None


def _machines_watched(
    sweep: SweepFile, writer: MlflowWriter, progress: Progress
) -> AbstractContextManager[None]:
    if not sweep.tracking.system_metrics:
        return nullcontext()
    from sweeps.cluster.machines import watched

    return watched(writer.submit_sample, progress.notice)


def _register(
    store: SweepStore,
    sweep: SweepFile,
    ranking: Ranking,
    dataset: Data,
    fault: str | None,
    progress: Progress,
) -> None:
    """Put the choice into MLflow's registry, or say why that cannot be: the answer stands."""
    from sweeps.exporting import register_choice
    from trainables.data.base import Dataset

    assert isinstance(dataset, Dataset)  # the sweep file refuses it beside a loop of one's own
    progress.stage("Registering the choice in MLflow")
    try:
        if fault is not None:
            raise UserError("MLflow is not up to date")
        registered = register_choice(store, sweep, ranking, lambda: dataset)
    except Exception as error:  # of the model, which cannot be traced, or of MLflow
        logger.error("the choice is not registered", exc_info=error)
        progress.notice(
            f"not registered in MLflow: {first_line(error)}; `calsweep export {sweep.name} "
            "--register` tries again"
        )
    else:
        progress.notice(f"registered: {', '.join(registered)}")


def _ending(ledger: Ledger, store: SweepStore, progress: Progress) -> Ending:
    ranking = Ranking(ledger.records, ledger.sweep.rule)
    comparisons = _comparisons(ranking, store, progress)
    found = answer(ranking, ledger.sweep, comparisons)
    if (said := _on_budget(ledger)) is not None:
        found["why"].append(said)
        found["on_budget"] = said
    failed = bool(ledger.records) and all(record.state == "failed" for record in ledger.records)
    return Ending("FAILED" if failed else "FINISHED", ranking, comparisons, found)


def _on_budget(ledger: Ledger) -> str | None:
    """Which budget ended the search, or the sweep before its end; None where all was tried."""
    spent = ledger.budget.used_up if ledger.cut_short else None
    key = spent or ledger.ended_by
    if key is None:
        return None
    if key == "stop_at_noise":
        return _on_noise(ledger)
    budget = f"search.{key} = {format_value(getattr(ledger.sweep.search, key))}"
    if spent is None:
        searched = counted(sum(record.searched for record in ledger.records), "setting")
        return f"The search ended by {budget}, after {searched}."
    ended = sum(record.state != "running" for record in ledger.records)
    return (
        f"{budget} is spent: {ended} of {ledger.planned} trials have ended. `calsweep resume "
        f"{ledger.sweep.name} --set search.{key}=MORE` goes on from here."
    )


def _on_noise(ledger: Ledger) -> str:
    rule = ledger.sweep.rule
    first = first_at_noise(ledger.records, rule)
    assert first is not None  # it ended the search
    value, calibrated = (first.outcome[rule.objective + end] for end in ("", CALIBRATED))
    searched = counted(sum(record.searched for record in ledger.records), "setting")
    return (
        f"The search ended by search.stop_at_noise, after {searched}: {first.label} came to "
        f"{rule.objective} {value:.4f}, and a perfectly calibrated model would show up to "
        f"{calibrated:.4f} on so few samples, so nothing further could be shown to be better."
    )


def _comparisons(ranking: Ranking, store: SweepStore, progress: Progress) -> list[Comparison]:
    """What the choice is worth, as far as the predictions are there and whole."""

    def read(number: int) -> bytes:
        folder, name = store.trial_folder(number), "predictions_validation.parquet"
        if not store.patiently(partial(folder.exists, name), progress.fault):
            raise FileNotFoundError(f"{folder.uri}/{name} is not there")
        return store.patiently(partial(folder.read, name), progress.fault)

    try:
        return compare(ranking, read)
    except (OSError, ValueError) as error:  # pyarrow's complaints are ValueErrors
        logger.error("the choice cannot be compared with cross-entropy: %s", error)
        return []


def _named_sweeps(sweep: SweepFile, storage: str) -> dict[str, list[TrialRecord]]:
    """The trials of the sweeps to learn from.

    Raises:
        UserError: There is no sweep of such a name.
    """
    found = {}
    for name in sweep.search.warm_start:
        store = SweepStore(storage, name)
        try:
            store.load_sweep()
        except UserError as error:
            raise UserError(f"search.warm_start: {error}") from None
        found[name] = store.load_records()
    return found


def _fitted_data(sweep: SweepFile) -> tuple[SweepFile, Data]:
    check_sweep(sweep)
    if sweep.dataset.name == OWN_DATA:
        from trainables.data.base import OwnData

        return sweep, OwnData(sweep.dataset.label, **sweep.dataset.options)
    dataset = load_data(sweep)
    return fit_to_data(sweep, dataset), dataset


def _load_records(sweep: SweepFile, store: SweepStore, progress: Progress) -> list[TrialRecord]:
    damaged: list[str] = []
    records = store.load_records(damaged.append)
    found = [_with_history(sweep, store, record) for record in records]
    for message in damaged:
        progress.notice(message)
    return found


def _with_history(sweep: SweepFile, store: SweepStore, record: TrialRecord) -> TrialRecord:
    """A record that was still running, with the epochs that its last checkpoint knows of."""
    if record.state == "running":
        from trainables.checkpoints import load_checkpoint

        setting = trial_setting(sweep.trained.name, sweep.trained.options, record.config)
        state = load_checkpoint(store.trial_folder(record.number) / "checkpoints", setting)
        record.history = list(state["history"]) if state else []
    return record


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
