"""Brings a sweep's runs in MLflow up to date with its records.

The sweep store is the source of truth, and MLflow mirrors it. :meth:`Mirror.show` and
:meth:`Mirror.complete` bring one trial's run up to date and may be repeated: metrics have the time
stamps of their epochs, and MLflow drops those that it already has. So the same code serves a
running sweep, a resumed one and ``calsweep sync``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sweeps.results.recommendation import STAR
from sweeps.results.result import Ending
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.store.identity import read_identity
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.address import make_client
from sweeps.tracking.artifacts import artifact_names, gather_artifacts
from sweeps.tracking.experiment import dataset_experiment, deleted, pages
from sweeps.tracking.kept_address import follow_storage, tracking_uri_of
from sweeps.tracking.refusals import NotTakenError, blamed
from sweeps.tracking.rights import needs_right, writes_to
from sweeps.tracking.run import (
    KILLED,
    METRICS,
    RANK,
    end_tags,
    metrics_file,
    ranks,
    run_metrics,
    run_parameters,
    run_tags,
    shown_names,
)
from sweeps.tracking.run_files import RunFiles
from sweeps.tracking.sqlite import make_database
from sweeps.tracking.sweep_run import SweepRun, log, missing
from sweeps.tracking.view import Leaderboard

_RANKS = 500  # trials with a rank at most
_SECONDS_BETWEEN_PROGRESS = 15.0


@dataclass
class _TrialRun:
    """The state of one trial's run in MLflow.

    Attributes:
        id: Id of the run; empty until MLflow has confirmed its creation.
        files: Its files; None until MLflow has confirmed its creation.
        found: Whether an earlier process created it, so that it may have unknown epochs.
        epochs: Number of epochs of the trial's history that were written.
        state: The state of the trial that was written.
        times: Time stamps of epochs that an earlier process wrote, in milliseconds.
        status: MLflow's; a run that was killed is that of an interrupted sweep.
        deleted: Whether a user deleted it.
        rank: The rank that was written.
    """

    id: str = ""
    files: RunFiles | None = None
    name: str = ""
    params: set[str] = field(default_factory=set)
    found: bool = False
    epochs: int = 0
    state: str | None = None
    times: dict[int, int] = field(default_factory=dict)
    status: str = "RUNNING"
    deleted: bool = False
    rank: str | None = None

    @property
    def filed(self) -> bool:
        """Whether it has ended with all its files."""
        return self.status in ("FINISHED", "FAILED")


class Mirror:
    """A sweep's runs in MLflow.

    Methods raise NoRightError without permission to write, NotTakenError if MLflow does not take
    this run (it may take others), and any error of MLflow if it does not answer.

    Args:
        look_for_files: Whether runs that have ended may lack files, because a folder was deleted or
            is another machine's. Otherwise their status is trusted.

    Attributes:
        leaderboard: The sweep's page in MLflow; None until MLflow has answered.
    """

    def __init__(self, plan: Plan, store: SweepStore, *, look_for_files: bool = False) -> None:
        self._plan = plan
        self._store = store
        self._sweep_id = store.sweep_id()
        self._look_for_files = look_for_files
        self._client: Any = None
        self._experiment: Any = None
        self._own: SweepRun | None = None
        self.leaderboard: Leaderboard | None = None
        self._shown: tuple[str, ...] = ()
        self._runs: dict[int, _TrialRun] = {}
        self._ended: dict[int, TrialRecord] = {}
        self._progress_due = 0.0

    def connect(self) -> SweepRun:
        """Find or make the experiment and the sweep's own run, and find the runs of its trials.

        A sweep's own run that was deleted is restored, because its trials are shown under it.
        """
        if self._own is not None:
            return self._own
        sweep = self._plan.sweep
        uri = tracking_uri_of(self._store, sweep.tracking.uri)
        make_database(uri)
        follow_storage(uri, self._store.storage, self._store.name)
        self._client = client = make_client(uri)
        identity = read_identity(self._store.folder)
        digest, classes = (identity.digest, identity.num_classes) if identity else (None, None)
        self._shown = shown_names(self._plan, classes)
        self._experiment = dataset_experiment(client, sweep, self._store, digest)
        parent = self._find_runs()
        if parent is not None and deleted(parent):
            with needs_right("restore the sweep's own run", "ask for MANAGE on its experiment"):
                client.restore_run(parent.info.run_id)
        board = Leaderboard(self._experiment.experiment_id, self._plan.name, self._sweep_id)
        with writes_to(self._experiment.name):
            own = SweepRun(client, board.experiment_id, self._plan, self._store, parent)
            client.set_experiment_tag(board.experiment_id, board.tag, board.view(self._plan))
        self._own, self.leaderboard = own, board
        return own

    def show(self, record: TrialRecord) -> None:
        """Write what MLflow's table of runs shows: parameters, metrics and how the trial ended."""
        own = self.connect()
        if not self._is_shown(record):
            with self._attributed_to(record.number):
                self._show(record, own.id)
        if record.state != "running" and record.role != "encoder":
            self._ended[record.number] = record
            if time.monotonic() >= self._progress_due:
                self.tell_progress()

    def _is_shown(self, record: TrialRecord) -> bool:
        run = self._runs.get(record.number)
        if run is None or run.state != record.state:  # also a trial that a user dropped or retried
            return False
        return run.filed or run.epochs == len(record.history)

    def tell_progress(self) -> None:
        own, ranking = self.connect(), Ranking(self._ended.values(), self._plan.rule)
        with suppress(NotTakenError), self._attributed_to(None):
            own.progress(ranking)
        self._progress_due = time.monotonic() + _SECONDS_BETWEEN_PROGRESS

    def complete(self, record: TrialRecord) -> None:
        """Add the files of a trial that has ended, and end its run.

        If the files cannot be gathered, the run stays open with its metrics, so that a later sync
        tries again.
        """
        run, own = self._runs[record.number], self.connect()
        assert run.files is not None  # it is shown
        with self._attributed_to(record.number):
            if run.filed and not (self._look_for_files and self._lacks_files(run.files, record)):
                return
            with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
                way = self._plan.rule.scaling
                gather_artifacts(self._store, record, own.files, Path(folder), way)
                run.files.add(Path(folder))
            status = "FAILED" if record.state == "failed" else "FINISHED"
            ended = int(1000 * record.ended) if record.ended else None
            self._client.set_terminated(run.id, status, ended)
        run.status = status

    def _lacks_files(self, files: RunFiles, record: TrialRecord) -> bool:
        expected = artifact_names(self._store, record, self.connect().files)
        return not expected <= files.names()

    def answer(self, ending: Ending) -> None:
        """Write the result to the sweep's own run, and ranks and the star to the trials' runs."""
        own, ranking = self.connect(), ending.ranking
        with self._attributed_to(None):
            own.answer(ending)
        found = dict(islice(ranks(ranking), _RANKS))
        recommended = ending.result.recommended
        shown = {trial.number for trial in ranking.shown if trial.searched}
        stars = () if recommended is None else recommended.trials
        later = None
        for record in ranking.records:
            run = self._runs.get(record.number)
            if run is None or not run.id or run.deleted:
                continue
            try:
                with self._attributed_to(record.number):
                    star = STAR if record.number in stars else ""
                    self._distinguish(run, found.get(record.number, run.rank), star + record.label)
                    if record.number in shown:
                        self._complete_metrics(run, record)
            except NotTakenError as error:
                later = error if error.lack == "later" else later
        if later is not None:
            raise later

    def _distinguish(self, run: _TrialRun, rank: str | None, name: str) -> None:
        """Write the rank of a trial and its name, which may have a star, unless it has them."""
        if rank != run.rank:
            self._client.set_tag(run.id, RANK, rank)
            run.rank = rank
        if run.name.startswith(STAR) != name.startswith(STAR):
            self._client.update_run(run.id, name=name)
            run.name = name

    def _complete_metrics(self, run: _TrialRun, record: TrialRecord) -> None:
        """Write the metrics that a trial of the search got when the sweep ended."""
        found = run_metrics(record.history[-1:], run.times, self._shown)
        # It may have others already.
        metrics = [metric for metric in found if metric[0] in self._shown]
        words = end_tags(record, self._plan.rule.objective)
        del words[RANK]
        log(self._client, run.id, {}, metrics, words)
        if run.filed and run.files is not None:  # else its files follow
            run.files.write({METRICS: metrics_file(record)})

    def end(self, ending: Ending) -> None:
        """Add the report and figures to the sweep's own run, and end it."""
        own = self.connect()
        with self._attributed_to(None):
            own.end(ending)
        with suppress(OSError):  # of the storage; the ids are a convenience
            there = {n: run.id for n, run in self._runs.items() if run.id and not run.deleted}
            self._store.save_run_ids(own.id, there)

    def suspend(self, ending: Ending | None = None) -> None:
        """End the runs that are open as killed; :meth:`connect` and :meth:`show` reopen them.

        The sweep's own run ends as the sweep did, without its files, which ``calsweep sync`` adds.
        Without an ending, it is killed too, so that the sweep can be resumed.
        """
        if ending is None:
            self.tell_progress()
        with suppress(NotTakenError), self._attributed_to(None):
            if ending is None:
                self.connect().suspend()
            else:
                self.connect().terminate(ending)
        for number, run in self._runs.items():
            if run.id and run.status == "RUNNING" and not run.deleted:
                with suppress(NotTakenError), self._attributed_to(number):
                    self._client.set_terminated(run.id, KILLED)
                    run.status = KILLED

    def _find_runs(self, condition: str = "") -> Any:
        """Find this sweep's runs in MLflow, with a further filter; returns its own run, or None."""
        from mlflow.entities import ViewType

        parent = None
        where = [self._experiment.experiment_id]
        own = f"tags.`calsweep.sweep_id` = '{self._sweep_id}'{condition}"
        for page in pages(self._client.search_runs, where, own, ViewType.ALL, max_results=1000):
            for run in page:
                if "calsweep.trial" in run.data.tags:
                    self._note(int(run.data.tags["calsweep.trial"]), run)
                else:
                    parent = run
        return parent

    def _note(self, number: int, run: Any) -> None:
        found = _TrialRun(
            id=run.info.run_id,
            files=RunFiles.of(run, self._client.tracking_uri),
            name=run.info.run_name or "",
            params=set(run.data.params),
            found=True,
            state=run.data.tags.get("state"),
            status=run.info.status,
            deleted=deleted(run),
        )
        known = self._runs.get(number, _TrialRun(deleted=True))
        # Two processes may have created two runs, one of them empty.
        if (not found.deleted, len(found.params)) >= (not known.deleted, len(known.params)):
            self._runs[number] = found

    def _show(self, record: TrialRecord, parent: str) -> None:
        run = self._run_of(record, parent)
        if run.found:
            run.times, run.found = self._epoch_times(run.id), False
        if run.status != "RUNNING":
            self._client.update_run(run.id, status="RUNNING")
            run.status = "RUNNING"
        parameters = missing(run_parameters(self._plan, record), run.params)
        # The record may change during the write.
        history, state = list(record.history), record.state
        log(
            self._client,
            run.id,
            parameters,
            run_metrics(history[run.epochs :], run.times, self._shown),
            end_tags(record, self._plan.rule.objective),
        )
        run.params |= parameters.keys()
        run.epochs, run.state = len(history), state

    def _run_of(self, record: TrialRecord, parent: str) -> _TrialRun:
        number = record.number
        if number in self._runs and not self._runs[number].id:
            # MLflow may have created it although its reply was lost.
            self._find_runs(f" and tags.`calsweep.trial` = '{number}'")
        run = self._runs.setdefault(number, _TrialRun(name=record.label))
        if not run.id:
            made = self._client.create_run(
                self._experiment.experiment_id,
                start_time=int(1000 * record.started),
                run_name=run.name,
                tags=run_tags(self._plan, self._sweep_id, record, parent),
            )
            run.id = str(made.info.run_id)
            run.files = RunFiles.of(made, self._client.tracking_uri)
        return run

    def _epoch_times(self, run_id: str) -> dict[int, int]:
        """The time stamps of a run's epochs, in milliseconds.

        Metrics of an epoch that is trained again keep its time stamp, or they would appear twice.
        """
        # A custom training loop may omit train_loss, and an encoder has no val_nll.
        history = self._client.get_metric_history(run_id, "val_nll")
        history = history or self._client.get_metric_history(run_id, "train_loss")
        return {metric.step: metric.timestamp for metric in history}

    @contextmanager
    def _attributed_to(self, number: int | None) -> Iterator[None]:
        if number is None:
            who, run = "the sweep's own run", _TrialRun(self.connect().id)
        else:
            who, run = f"trial {number}: its run", self._runs.get(number, _TrialRun())
        if run.deleted:
            raise NotTakenError("deleted", f"{who} was deleted in MLflow")
        try:
            with blamed(self._client, self._experiment, who, run.id):
                yield
        except NotTakenError as error:
            run.deleted = error.lack == "deleted"
            raise
