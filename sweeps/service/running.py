"""Runs a sweep from its file to the result, or continues an interrupted one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sweeps.cluster.ray_tune import RayTune
from sweeps.errors import UserError
from sweeps.messages.events import Event, emit
from sweeps.messages.reporter import logger
from sweeps.planning.checks import check_sweep, use_working_folder
from sweeps.planning.data import data_of
from sweeps.planning.data_fit import resolve
from sweeps.planning.paths import with_absolute_paths
from sweeps.service.backend import Backend, RunningSweep
from sweeps.service.course import EndedSweep, OnAnswer, carry_out
from sweeps.service.in_process import InProcess
from sweeps.service.interrupts import terminated_as_interrupted
from sweeps.service.notifying import notified
from sweeps.service.starting import NewSweep
from sweeps.store.code import Code, keep_code
from sweeps.store.driver_log import driver_log
from sweeps.store.first_files import keep_given, read_given
from sweeps.store.identity import Identity, changes_since_start, identify
from sweeps.store.journal import note
from sweeps.store.requests import stopped_on_request
from sweeps.store.state import failure_noted
from sweeps.store.storage import check_storage
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import budgets_asked, with_other_budgets
from sweeps.sweep_file.schema import SweepFile
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from sweeps.tracking.address import check_answers
from sweeps.tracking.kept_address import tracking_uri_of

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.data.core.base import Data


class RunOptions(TypedDict, total=False):
    """The options of :func:`run_sweep`, :func:`resume_sweep` and :func:`run_or_resume`.

    Attributes:
        address: A Ray cluster; None starts Ray on this machine.
        debug: Whether to train in this process, without Ray.
        console: Where progress is shown; None for stderr.
        on_answer: Called with the result as soon as it exists, while MLflow is still being written.
        keep_ray: Whether Ray on this machine runs on, for the next sweep of this process.
    """

    address: str | None
    debug: bool
    console: Console | None
    on_answer: OnAnswer
    keep_ray: bool


def _backend(options: RunOptions, workers: int) -> Backend:
    """What trains trials with so many workers; UserError if debugging cannot."""
    address = options.get("address")
    if not options.get("debug"):
        return RayTune(address, options.get("keep_ray", False))
    if address is not None:
        raise UserError(
            "not allowed with debug, which trains in this process; leave one of them out",
            "address",
            address,
        )
    if workers > 1:
        raise UserError(
            f"scaling.num_workers = {workers} is not allowed with debug, which trains in one "
            "process; allowed: 1"
        )
    return InProcess()


def run_sweep(sweep: SweepFile, storage: str, **options: Unpack[RunOptions]) -> EndedSweep:
    """Run a new sweep; for the options see :class:`RunOptions`.

    Raises:
        UserError: The input is wrong; nothing was started or written.
        SweepFailedError: Every trial failed, or a budget was spent before the first one finished.
        SweepInterruptedError: By Ctrl-C, SIGTERM or SIGHUP; :func:`resume_sweep` continues.
    """
    store = SweepStore(storage, sweep.name)
    check_storage(storage)
    store.check_free()
    return _run(with_absolute_paths(sweep), store, options, new=True, given=sweep)


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
    return _resume(SweepStore(storage, name), overrides, options)


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
    budgets = budgets_asked(sweep, store.load_sweep(), read_given(store.folder) or sweep)
    return _resume(store, budgets, options, given=sweep)


def _resume(
    store: SweepStore,
    overrides: Sequence[str] | Mapping[str, Any],
    options: RunOptions,
    given: SweepFile | None = None,
) -> EndedSweep:
    before = store.load_sweep()
    sweep = with_other_budgets(before, overrides)
    check_storage(store.storage)
    if sweep.search != before.search and store.load_answer() is not None:
        raise UserError(
            f"sweep {store.name!r} has finished, and has no use for another budget; a new "
            f"sweep with search.learn_from = {store.name} learns from it"
        )
    return _run(sweep, store, options, new=False, given=given)


def _run(
    sweep: SweepFile, store: SweepStore, options: RunOptions, *, new: bool, given: SweepFile | None
) -> EndedSweep:
    """Run or continue it; `given` is the sweep file, None if the stored one is continued."""
    backend = _backend(options, sweep.scaling.num_workers)
    console = options.get("console") or plain_console(stderr=True, lasting=True)
    use_working_folder()
    with (
        Progress(console, live=not options.get("debug")) as progress,
        terminated_as_interrupted() as interrupt,
        store.locked(progress, interrupt),  # first of all, because two processes may start at once
        stopped_on_request(store.folder, interrupt),
    ):
        if new:
            store.check_free()
        with _loading(sweep, backend, progress) as loading:
            loading.checked.result()
            beginning = NewSweep.read(sweep, store) if new else None
            own = sweep.tracking.uri
            check_answers(beginning.tracking if beginning else tracking_uri_of(store, own))
            data = loading.data.result()
            plan = resolve(sweep, data, backend, progress)
            identity = loading.identity.result()
            if beginning:
                beginning.create(plan, identity, data, given or sweep, progress)
                note(store.folder, "started")
            else:
                store.change(plan.sweep)
                if given is not None:
                    keep_given(store.folder, given)
                if store.load_answer() is None:
                    note(store.folder, "resumed")
            emit(Event("begun"))
            code = store.patiently(keep_code, store.folder, Code(identity.modules))
            running = RunningSweep(plan, store, data, backend, progress, code)
            return _logged(
                running, None if new else identity, options.get("on_answer", lambda found: None)
            )


@dataclass(frozen=True)
class _Loading:
    """What is found out about a sweep while its backend starts."""

    checked: Future[None]
    data: Future[Data]
    identity: Future[Identity]


@contextmanager
def _loading(sweep: SweepFile, backend: Backend, progress: Progress) -> Iterator[_Loading]:
    """Context in which the backend has started, and the sweep is checked and its data are loaded.

    The checks import PyTorch. This and starting Ray take some seconds each.
    """

    def load() -> Data:
        checked.result()
        return data_of(sweep)

    progress.stage(f"Loading {sweep.dataset.label} and {backend.start}")
    starting = backend.started(progress)
    with ThreadPoolExecutor(1) as aside:
        checked = aside.submit(check_sweep, sweep)
        data = aside.submit(load)
        identity = aside.submit(lambda: identify(sweep.named, data.result()))
        with (
            starting,
            # Again, because Ray has installed its own handler, which aborts after 3 seconds.
            terminated_as_interrupted(),
        ):
            yield _Loading(checked, data, identity)


def _logged(running: RunningSweep, resumed: Identity | None, on_answer: OnAnswer) -> EndedSweep:
    """Carry it out with a driver's log; its end is noted in the store and announced.

    If it is resumed, it says what has changed since its start.
    """
    store, progress = running.store, running.progress
    with (
        driver_log(store) as log,
        notified(running.plan.sweep.tracking, store, progress) as listeners,
        failure_noted(store),
    ):
        known = running.plan.name, store.folder
        for line in changes_since_start(*known, resumed) if resumed else ():
            progress.notice(line)
            logger.warning(line)
        return carry_out(replace(running, listeners=listeners), log, on_answer)
