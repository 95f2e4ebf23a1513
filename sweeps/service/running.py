"""Runs a sweep from its file to the result, or continues an interrupted one."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sweeps.cluster.ray_tune import RayTune
from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError, first_line
from sweeps.evidence.learning import FirstEpochs
from sweeps.messages.formatting import calsweep_command
from sweeps.planning.checks import check_sweep, use_working_folder
from sweeps.planning.data import data_of
from sweeps.planning.names import names_look_right
from sweeps.planning.rehearsal import Rehearsal
from sweeps.planning.resolving import resolve
from sweeps.results.explanation import failure_summary
from sweeps.results.result import Ending, SweepResult
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.suggestions import Known
from sweeps.search.trial_queue import Past, TrialQueue
from sweeps.service.backend import Backend, train
from sweeps.service.ending import end_of, take_look
from sweeps.service.in_process import InProcess
from sweeps.service.mistakes import keep_mistakes
from sweeps.service.notifying import notified
from sweeps.service.pilot_run import run_pilot
from sweeps.service.starting import NewSweep
from sweeps.store.beginning import keep_given, read_given
from sweeps.store.blocks import BlockWriter
from sweeps.store.driver_log import driver_log
from sweeps.store.encoders import trained_encoders, usable_encoders
from sweeps.store.identity import changes_since_start, identify
from sweeps.store.recorded_sweeps import read_recorded
from sweeps.store.resuming import interrupted, load_records
from sweeps.store.state import failure_noted
from sweeps.store.sweep_store import SweepStore, check_storage
from sweeps.sweep_file.loading import budgets_asked, with_other_budgets
from sweeps.sweep_file.schema import SweepFile
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from sweeps.tracking.address import check_answers
from sweeps.tracking.kept_address import tracking_uri_of
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.writer import MlflowWriter

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.contract.config import EncoderSetup
    from trainables.data.core.base import Data

logger = logging.getLogger("calsweep")

_PATIENCE_SECONDS = 20.0


OnAnswer = Callable[[SweepResult], None]


def _nothing(found: SweepResult) -> None: ...


class RunOptions(TypedDict, total=False):
    """Where a sweep runs, and what hears of it; see :class:`_Session`."""

    address: str | None
    debug: bool
    console: Console | None
    on_answer: OnAnswer
    keep_ray: bool


@dataclass(frozen=True)
class _Session:
    """The options of :func:`run_sweep`, :func:`resume_sweep` and :func:`run_or_resume`.

    Attributes:
        address: A Ray cluster; None starts Ray on this machine.
        debug: Whether to train in this process, without Ray.
        console: Where progress is shown; None for stderr.
        on_answer: Called with the result as soon as it exists, while MLflow is still being written.
        keep_ray: Whether Ray on this machine runs on, for the next sweep of this process.
    """

    address: str | None = None
    debug: bool = False
    console: Console | None = None
    on_answer: OnAnswer = _nothing
    keep_ray: bool = False

    def backend(self, sweep: SweepFile) -> Backend:
        """What trains this sweep; UserError if debugging cannot."""
        if not self.debug:
            return RayTune(self.address, self.keep_ray)
        if self.address is not None:
            raise UserError(
                f"--address = {self.address!r} is not allowed with --debug, which trains in this "
                "process; leave one of them out"
            )
        workers = sweep.scaling.num_workers
        if workers > 1:
            raise UserError(
                f"scaling.num_workers = {workers} is not allowed with --debug, which trains in one "
                "process; allowed: 1"
            )
        return InProcess()


@dataclass(frozen=True)
class EndedSweep:
    """How a sweep ended.

    Attributes:
        result: What it has found.
        unsynced: Trials that are incomplete in MLflow, because it did not answer or their files are
            damaged.
        tracking_uri: MLflow's address.
        experiment_id: MLflow's id of the experiment; None if MLflow has not answered.
    """

    records: list[TrialRecord]
    result: SweepResult
    unsynced: int
    fault: str | None
    tracking_uri: str
    experiment_id: str | None = None


def run_sweep(sweep: SweepFile, storage: str, **options: Unpack[RunOptions]) -> EndedSweep:
    """Run a new sweep; for the options see :class:`_Session`.

    Raises:
        UserError: The input is wrong; nothing was started or written.
        SweepFailedError: Every trial failed, or a budget was spent before the first one finished.
        SweepInterruptedError: By Ctrl-C, SIGTERM or SIGHUP; :func:`resume_sweep` continues.
    """
    store = SweepStore(storage, sweep.name)
    check_storage(storage)
    if store.exists():
        store.create(sweep)  # raises the error that the name is taken
    return _run(sweep, store, _Session(**options), new=True, given=sweep)


def resume_sweep(
    name: str,
    storage: str,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    **options: Unpack[RunOptions],
) -> EndedSweep:
    """Continue a sweep: finished trials stay, interrupted ones continue from their checkpoints.

    `overrides` are changed budgets, see :func:`~sweeps.sweep_file.loading.with_other_budgets`.
    Errors are those of :func:`run_sweep`; a sweep that is running, or has finished and cannot use
    the budget, is a UserError.
    """
    return _resume(SweepStore(storage, name), overrides, _Session(**options))


def run_or_resume(sweep: SweepFile, storage: str, **options: Unpack[RunOptions]) -> EndedSweep:
    """Resume the sweep if one of this name exists, otherwise start it.

    A job that is killed, preempted or recreated can call this repeatedly. The sweep file's budgets
    count if they were changed in it since the last call. Errors are those of :func:`run_sweep`; a
    sweep file changed in anything but the budgets is a UserError.
    """
    store = SweepStore(storage, sweep.name)
    check_storage(storage)
    if not store.exists():
        return run_sweep(sweep, storage, **options)
    budgets = budgets_asked(sweep, store.load_sweep(), read_given(store.folder))
    return _resume(store, budgets, _Session(**options), given=sweep)


def _resume(
    store: SweepStore,
    overrides: Sequence[str] | Mapping[str, Any],
    session: _Session,
    given: SweepFile | None = None,
) -> EndedSweep:
    sweep = with_other_budgets(store.load_sweep(), overrides)
    check_storage(store.storage)
    if overrides and store.load_answer() is not None:
        raise UserError(
            f"sweep {store.name!r} has finished, and has no use for another budget; a new "
            f"sweep with search.warm_start = {store.name} learns from it"
        )
    return _run(sweep, store, session, new=False, given=given)


def _run(
    sweep: SweepFile, store: SweepStore, session: _Session, *, new: bool, given: SweepFile | None
) -> EndedSweep:
    """Run or continue it; `given` is the sweep file, None if the stored one is continued."""
    backend = session.backend(sweep)
    use_working_folder()
    if not names_look_right(sweep):
        check_sweep(sweep)  # before Ray starts
    with (
        Progress(
            session.console or plain_console(stderr=True, lasting=True), not session.debug
        ) as progress,
        _terminated_as_interrupted() as interrupt,
        store.locked(progress, interrupt),  # first of all, because two processes may start at once
    ):
        if new:
            store.check_free()
        progress.stage(f"Loading {sweep.dataset.label} and {backend.start}")
        starting = backend.started(progress)
        with ThreadPoolExecutor(1) as aside:
            # The checks import PyTorch. This and starting Ray take some seconds each.
            checking = aside.submit(check_sweep, sweep)
            loading = aside.submit(_data_if_checked, sweep, checking)
            identifying = aside.submit(lambda: identify(sweep.named, loading.result()))
            with (
                starting,
                # Again, because Ray has installed its own handler, which aborts after 3 seconds.
                _terminated_as_interrupted(),
            ):
                checking.result()
                beginning = NewSweep.read(sweep, store) if new else None
                check_answers(beginning.tracking if beginning else tracking_uri_of(store, sweep))
                dataset = loading.result()
                plan = resolve(sweep, dataset, backend, progress)
                identity = identifying.result()
                if beginning:
                    beginning.create(plan, identity, dataset, given or sweep, progress)
                else:
                    store.change(plan.sweep)
                    if given is not None:
                        keep_given(store.folder, given)
                with (
                    driver_log(store) as log,
                    notified(plan.sweep.tracking.notify, store, progress),
                    failure_noted(store),
                ):
                    known = store.folder, identity
                    for line in () if new else changes_since_start(sweep.name, *known):
                        progress.notice(line)
                        logger.warning(line)
                    return _carry_out(
                        plan, store, dataset, backend, progress, session.on_answer, log
                    )


def _data_if_checked(sweep: SweepFile, checking: Future[None]) -> Data:
    checking.result()
    return data_of(sweep)


def _carry_out(
    plan: Plan,
    store: SweepStore,
    dataset: Data,
    backend: Backend,
    progress: Progress,
    on_answer: OnAnswer,
    log: Path,
) -> EndedSweep:
    first_epochs = FirstEpochs(dataset, progress, plan)
    plan, pilot = run_pilot(plan, store, dataset, backend, progress, first_epochs, log)
    sweep = plan.sweep
    mirror, blocks, encoder, past = store.patiently(_read_store, plan, store, dataset, progress)
    writer = MlflowWriter(mirror, progress)
    queue = TrialQueue(
        plan,
        store.save,
        dataset.num_classes,
        replace(past, pilot=pilot),
        listeners=(
            blocks.take,
            writer.submit,
            progress.tick,
            Rehearsal(plan, dataset, progress, backend.nodes).take,
            first_epochs.take,
        ),
        take_look=partial(take_look, plan, store),
    )
    for record in past.records:
        writer.submit(record)
    progress.stage("Starting the first trials")
    progress.follow(queue)
    try:
        if not queue.exhausted:
            train(backend, queue, dataset, store, encoder, progress)
        ending = end_of(queue, store, dataset, progress)
        if not queue.cut_short:
            store.save_answer(ending.result.to_json())
            keep_mistakes(store, ending.ranking, dataset)
    except BaseException as error:
        progress.stage("Writing to MLflow")
        writer.close(_PATIENCE_SECONDS)
        if not isinstance(error, KeyboardInterrupt):
            raise
        raise interrupted(store) from None
    failed = ending.status == "FAILED"
    in_vain = queue.cut_short and not any(r.state == "finished" for r in queue.records)
    if not (failed or in_vain):
        progress.end()
        on_answer(ending.result)
    unsynced = _write_the_rest(writer, None if queue.cut_short else ending, store)
    if failed:
        raise SweepFailedError(
            f"every trial of {sweep.name!r} failed:\n{failure_summary(queue.records)}\n"
            f"more is in the log, {log}"
        )
    if in_vain:
        raise SweepFailedError(f"no trial has finished: {' '.join(ending.result.evidence.ends)}")
    if sweep.tracking.register_model and not queue.cut_short and ending.ranking.chosen is not None:
        _register(store, plan, ending.ranking, dataset, writer.fault, progress)
    uri = tracking_uri_of(store, sweep)
    return EndedSweep(
        queue.records, ending.result, unsynced, writer.fault, uri, mirror.experiment_id
    )


def _read_store(
    plan: Plan, store: SweepStore, dataset: Data, progress: Progress
) -> tuple[Mirror, BlockWriter, EncoderSetup | None, Past]:
    records = load_records(plan, store, progress.notice)
    encoder = usable_encoders(plan, store, dataset, progress.notice)
    past = Past(
        records,
        Known(store.load_earlier(), read_recorded(store.folder)),
        trained_encoders(plan, encoder),
    )
    return Mirror(plan, store), BlockWriter(store.folder, records), encoder, past


def _write_the_rest(writer: MlflowWriter, ending: Ending | None, store: SweepStore) -> int:
    """Bring MLflow up to date; returns the number of trials that failed.

    Without an ending (the sweep can be resumed), open runs in MLflow end as killed.
    """
    try:
        return writer.close(_PATIENCE_SECONDS, ending)
    except KeyboardInterrupt:
        raise SweepInterruptedError(
            "interrupted; the sweep store has all of it, and "
            f"{calsweep_command(f'sync {store.name}', store.storage)} brings MLflow up to date"
        ) from None


def _register(
    store: SweepStore,
    plan: Plan,
    ranking: Ranking,
    dataset: Data,
    fault: str | None,
    progress: Progress,
) -> None:
    from sweeps.service.registering import register_recommended
    from trainables.data.core.base import Dataset

    assert isinstance(dataset, Dataset)  # custom loops are refused
    progress.stage("Registering the recommended classifier in MLflow")
    try:
        if fault is not None:
            raise UserError("MLflow is not up to date")
        registered = register_recommended(store, plan, ranking, lambda: dataset)
    except Exception as error:  # the model cannot be traced, or MLflow fails
        logger.error("the recommended classifier is not registered", exc_info=error)
        progress.notice(
            f"not registered in MLflow: {first_line(error)}; "
            f"{calsweep_command(f'export {plan.name} --register', store.storage)} tries again"
        )
    else:
        progress.notice(f"registered: {registered}")


@contextmanager
def _terminated_as_interrupted() -> Iterator[Callable[[], None]]:
    """Context: SIGTERM and SIGHUP end a sweep like Ctrl-C, cleanly and resumable.

    SIGHUP comes when the terminal is closed; if it is ignored, as under ``nohup``, it stays so.

    Yields:
        A function that does so from another thread. Outside the main thread, where signals cannot
        be handled, it does nothing, because SIGTERM would end the whole process.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        previous = {number: signal.signal(number, interrupt) for number in _ending_signals()}
    except ValueError:  # only the main thread may handle signals
        yield lambda: None
        return
    try:
        yield _terminate_main_thread
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _ending_signals() -> Iterator[signal.Signals]:
    yield signal.SIGTERM
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        yield signal.SIGHUP


def _terminate_main_thread() -> None:
    """Interrupt it by SIGTERM, even if it sleeps; ``_thread.interrupt_main`` does not wake it."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)
