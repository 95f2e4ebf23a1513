"""The course of a sweep: pilot, search, verdicts, MLflow, registration."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError, first_line
from sweeps.evidence.learning import FirstEpochs
from sweeps.messages.formatting import calsweep_command, resume_command
from sweeps.messages.reporter import logger
from sweeps.planning.rehearsal import Rehearsal
from sweeps.results.evidence import NOT_YET
from sweeps.results.explanation import failure_summary
from sweeps.results.recommendation import shown_network
from sweeps.results.result import Ending, SweepResult
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import End, Listener, Past, TrialQueue
from sweeps.service.backend import RunningSweep, interrupted, load_records, train
from sweeps.service.ending import end_of, ending_with, take_look
from sweeps.service.pilot_run import run_pilot
from sweeps.service.reading.mistakes import keep_mistakes
from sweeps.service.reading.stored import StoredSweep, load_evidence
from sweeps.store.blocks import BlockWriter
from sweeps.store.code import Code, keep_code
from sweeps.store.earlier_sweeps import read_known
from sweeps.store.encoders import trained_encoders, usable_encoders
from sweeps.store.identity import own_modules
from sweeps.store.outcomes import complete
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.kept_address import tracking_uri_of
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.view import Leaderboard
from sweeps.tracking.writer import MlflowWriter

if TYPE_CHECKING:
    from trainables.contract.config import EncoderSetup


_PATIENCE_SECONDS = 20.0

OnAnswer = Callable[[SweepResult], None]


@dataclass(frozen=True)
class EndedSweep:
    """How a sweep ended.

    Attributes:
        result: What it has found.
        unsynced: Trials that are incomplete in MLflow, because it did not answer or their files are
            damaged.
        tracking_uri: MLflow's address.
        leaderboard: Its page in MLflow; None if MLflow has not answered.
    """

    records: list[TrialRecord]
    result: SweepResult
    unsynced: int
    fault: str | None
    tracking_uri: str
    leaderboard: Leaderboard | None = None


def carry_out(running: RunningSweep, log: Path, on_answer: OnAnswer) -> EndedSweep:
    """Search, judge and track; errors name `log`, the driver's, where there is more."""
    store, dataset, progress = running.store, running.data, running.progress
    first_epochs = FirstEpochs(dataset, progress, running.plan)
    running, pilot = run_pilot(running, first_epochs, log)
    plan, sweep = running.plan, running.plan.sweep
    mirror, blocks, encoder, past = store.patiently(_read_store, running)
    writer = MlflowWriter(mirror, progress)
    listeners: tuple[Listener, ...] = (
        blocks.take,
        writer.submit,
        progress.tick,
        Rehearsal(plan, dataset, progress, running.backend.nodes).take,
        first_epochs.take,
        *running.listeners,
    )
    queue = _queue_of(running, replace(past, pilot=pilot), listeners)
    for record in past.records:
        writer.submit(record)
    progress.follow(queue)
    try:
        had_ended = queue.exhausted and load_evidence(store) is not NOT_YET
        if not queue.exhausted:
            progress.stage("Starting the first trials")
            train(running, queue, encoder)
        if queue.gave_up:
            raise SweepFailedError(_gave_up(queue, store, log))
        _complete_shown(queue, store, blocks)
        ending = (
            ending_with(StoredSweep(store, plan, Ranking(queue.records, plan.rule)))
            if had_ended
            else end_of(queue, store, dataset, progress)
        )
        if queue.complete:
            store.save_answer(ending.result.to_json())
            shown = shown_network(ending.ranking, ending.result.recommended)
            keep_mistakes(store, shown, dataset, ending.ranking.rule.scaling)
    except BaseException as error:
        stopped = interrupted(store) if isinstance(error, KeyboardInterrupt) else None
        progress.stage("Writing to MLflow")
        with suppress(KeyboardInterrupt):  # a second Ctrl-C ends the wait
            writer.close(_PATIENCE_SECONDS)
        if stopped is None:
            raise
        raise stopped from None
    end = queue.how_it_ended
    if end in ("finished", "cut short"):
        progress.end()
        on_answer(ending.result)
    unsynced = _write_the_rest(writer, ending if queue.complete else None, store)
    if (fault := _fault_of(end, queue, ending, log)) is not None:
        raise SweepFailedError(fault)
    chosen = end == "finished" and ending.ranking.chosen is not None
    if chosen and sweep.tracking.register_model:
        _register(running, ending.ranking, writer.fault)
    uri = tracking_uri_of(store, sweep.tracking.uri)
    return EndedSweep(queue.records, ending.result, unsynced, writer.fault, uri, mirror.leaderboard)


def _queue_of(running: RunningSweep, past: Past, listeners: tuple[Listener, ...]) -> TrialQueue:
    plan, store = running.plan, running.store
    queue = TrialQueue(
        plan,
        store.save,
        running.data.num_classes,
        past,
        take_look=partial(take_look, plan, store),
    )
    queue.listeners += listeners
    queue.code = running.code
    queue.code_now = lambda: store.patiently(
        keep_code, store.folder, Code(own_modules(plan.sweep.named))
    )
    return queue


def _fault_of(end: End, queue: TrialQueue, ending: Ending, log: Path) -> str | None:
    match end:
        case "failed":
            return (
                f"every trial of {queue.plan.name!r} failed:\n{failure_summary(queue.records)}\n"
                f"more is in the log, {log}"
            )
        case "in vain":
            return f"no trial has finished: {' '.join(ending.result.evidence.ends)}"
        case "finished" | "cut short":
            return None


def _gave_up(queue: TrialQueue, store: SweepStore, log: Path) -> str:
    failed = [r for r in queue.records if r.state == "failed" and not r.dropped]
    failed.sort(key=lambda record: record.ended or 0.0)
    most = queue.plan.search.max_failures or 0
    retry = calsweep_command(f"retry {store.name} --failed", store.storage)
    return (
        f"the last {most} trials failed, so the sweep has ended early (search.max_failures):\n"
        f"{failure_summary(failed[-most:])}\n"
        f"Finished trials are kept. When the cause is fixed, {retry} and then "
        f"{resume_command(store.name, store.storage)} continue it; more is in the log, {log}"
    )


def _read_store(
    running: RunningSweep,
) -> tuple[Mirror, BlockWriter, EncoderSetup | None, Past]:
    plan, store, notice = running.plan, running.store, running.progress.notice
    records = load_records(plan, store, notice)
    encoder = usable_encoders(plan, store, running.data, notice)
    past = Past(
        records,
        read_known(store.folder),
        trained_encoders(plan, encoder),
    )
    return Mirror(plan, store), BlockWriter(store.folder, records), encoder, past


def _complete_shown(queue: TrialQueue, store: SweepStore, blocks: BlockWriter) -> None:
    """Give the trials by which the result shows each loss all metrics."""
    ranking = Ranking(queue.records, queue.plan.rule)
    for record in complete(ranking.shown, queue.plan, store.rows_patiently):
        store.save(record)
        blocks.replace(record)


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


def _register(running: RunningSweep, ranking: Ranking, fault: str | None) -> None:
    from sweeps.service.delivery.loading import load_same_data
    from sweeps.service.delivery.registering import register_delivered
    from trainables.data.core.base import Dataset

    dataset, progress = running.data, running.progress
    sweep = StoredSweep(running.store, running.plan, ranking)
    progress.stage("Registering the recommended classifier in MLflow")
    again = calsweep_command(f"export {sweep.plan.name} --register", sweep.store.storage)
    try:
        if fault is not None:
            raise UserError("MLflow is not up to date")
        known = dataset if isinstance(dataset, Dataset) else None
        registered = register_delivered(sweep, lambda: known or load_same_data(sweep))
    except KeyboardInterrupt:
        raise SweepInterruptedError(
            f"interrupted; the sweep has finished, and {again} registers its classifier"
        ) from None
    except Exception as error:  # the model cannot be traced, or MLflow fails
        logger.error("the recommended classifier is not registered", exc_info=error)
        progress.notice(f"not registered in MLflow: {first_line(error)}; {again} tries again")
    else:
        progress.notice(f"registered: {registered}")
