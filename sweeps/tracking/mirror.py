"""Brings a sweep's runs in MLflow up to date with its records.

The sweep store is the truth and MLflow its mirror: :meth:`Mirror.sync` brings one trial's run up to
date and may be repeated at will (the metrics carry the time stamps of their epochs, and MLflow
drops what it has already). So the same code serves a running sweep, a resumed one and
``calsweep sync``.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from sweeps.errors import first_line
from sweeps.formatting import finite
from sweeps.redaction import redact
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.store.identity import read_environment, read_identity
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import make_client, make_database, tracking_uri
from sweeps.tracking.artifacts import ArtifactError, FilesAwayError, gather_artifacts
from sweeps.tracking.experiment import dataset_experiment
from sweeps.tracking.internals import (
    RunTables,
    deleted,
    sqlite_path,
    upload,
)
from sweeps.tracking.rights import needs_right, writes_to
from sweeps.tracking.run import (
    PLACE,
    RunChange,
    end_tags,
    places,
    run_metrics,
    run_parameters,
    run_tags,
    sweep_parameters,
)
from sweeps.tracking.story import (
    Ending,
    dataset_entity,
    description,
    running_description,
    story_files,
)

MachineSample = tuple[float, Mapping[str, float]]
TOGETHER = 50  # trials that are shown at once
_METRICS_PER_CALL = 1000  # MLflow's limit on all things in one call
_SMALL_CHANGE = 100  # of which parameters and tags may take this many
_PLACES = 500  # trials that are given their place: more, nobody looks at
_DESCRIPTION = "mlflow.note.content"
_COMMIT = "mlflow.source.git.commit"
_SECONDS_BETWEEN_PROGRESS = 15.0

logger = logging.getLogger("calsweep")


class RunRefusedError(Exception):
    """MLflow answers, but does not take one run: names the trial and the cause."""


class RunDeletedError(RunRefusedError):
    """A run was deleted in MLflow, where it stays so until somebody restores it there."""


class Mirror:
    """A sweep's runs in MLflow.

    Args:
        sweep: The sweep.
        store: Its store.
    """

    def __init__(self, sweep: SweepFile, store: SweepStore) -> None:
        self._sweep = sweep
        self._store = store
        self._uri = tracking_uri(store.storage, sweep)
        self._shared = {"sweep.yaml": redact(store.folder.read("sweep.yaml").decode())}
        environment = read_environment(store.folder)  # not this machine's, which may just sync
        if environment is not None:
            self._shared["environment.json"] = json.dumps(environment, indent=1)
        self._commit = str((environment or {}).get("commit") or "").removesuffix("-dirty")
        identity = read_identity(store.folder)
        self._digest = identity.digest if identity is not None else None
        self._sweep_id = store.sweep_id()
        self._client: Any = None
        self._experiment_id = ""
        self._experiment = ""  # its name
        self._parent_id = ""
        self._run_ids: dict[int, str] = {}
        self._found: dict[int, set[str]] = {}  # runs from before, with the parameters they have
        self._deleted: set[int] = set()
        self._complete: set[int] = set()
        self._ended: dict[int, TrialRecord] = {}
        self._progress_due = 0.0
        self._began: float | None = None  # the sweep's own run
        self._synced_epochs: dict[int, int] = {}
        self._shown: dict[int, tuple[int, str]] = {}  # epochs and state that were written
        self._tables: RunTables | None = None  # of a SQLite file
        self._artifact_uris: dict[int, str] = {}
        self._times_before: dict[int, dict[int, int]] = {}  # of the epochs of runs from before

    def connect(self) -> None:
        """Find or make the experiment and the sweep's own run, and find the runs of its trials.

        A sweep's own run that was deleted is restored: its trials are to be shown under it.

        Raises:
            NoRightError: The user may not write there.
            Exception: Whatever MLflow raises, where it does not answer.
        """
        if self._client is not None:
            return
        make_database(self._uri)
        client = make_client(self._uri)
        experiment = dataset_experiment(
            client, self._sweep, self._sweep_id, self._digest, self._store.storage, self._uri
        )
        self._experiment_id, self._experiment = str(experiment.experiment_id), experiment.name
        parent = self._find_runs(client)
        if parent is not None and deleted(parent):
            with needs_right("restore the sweep's own run", "ask for MANAGE on its experiment"):
                client.restore_run(parent.info.run_id)
        with writes_to(self._experiment):
            self._parent_id = (
                parent.info.run_id if parent is not None else self._make_parent(client)
            )
            self._describe_parent(client, set(parent.data.params) if parent is not None else set())
        if sqlite_path(self._uri) is not None:
            self._tables = RunTables(client, self._experiment_id)
        self._client = client

    def sync(self, record: TrialRecord) -> None:
        """Bring the run of one trial up to date with its record: :meth:`show`, :meth:`complete`."""
        self.show(record)
        if record.state != "running":
            self.complete(record)

    def show(self, record: TrialRecord) -> None:
        """Write what MLflow's table of runs shows: parameters, metrics and how the trial ended.

        Raises:
            RunRefusedError: MLflow does not take this run; others it may.
            Exception: Whatever MLflow raises, where it does not answer.
        """
        self.connect()
        if record.number in self._complete:
            return
        if self._shown.get(record.number) != (len(record.history), record.state):
            with self._blamed(record.number):
                self._show(record)
        if record.state != "running" and record.role != "encoder":
            self._ended[record.number] = record
            self._tell_progress()

    def show_together(self, records: Iterable[TrialRecord]) -> None:
        """As :meth:`show` of each, in one transaction for many, where MLflow is a SQLite file.

        What cannot be written so is left to :meth:`show`, which tells whose fault that is.

        Args:
            records: Of any trials.

        Raises:
            Exception: Whatever MLflow raises, where it does not answer.
        """
        self.connect()
        if self._tables is None:
            return
        # What we did not write ourselves may lack anything, or be gone.
        apart = self._complete | self._deleted | self._found.keys() - self._synced_epochs.keys()
        several = [record for record in records if record.number not in apart]
        changes = [self._change(record, self._tables.new_run_id()) for record in several]
        try:
            self._tables.write([change for change, *_ in changes])
        except Exception as error:  # one of them is at fault, or it does not answer
            logger.debug("runs are written one by one: %s", first_line(error))
            return
        for record, (change, epochs, state) in zip(several, changes, strict=True):
            if change.made is not None:
                self._run_ids[record.number] = change.run_id
                self._artifact_uris[record.number] = self._tables.artifact_uri(change.run_id)
            self._synced_epochs[record.number] = epochs
            self._shown[record.number] = epochs, state

    def _change(self, record: TrialRecord, new_id: str) -> tuple[RunChange, int, str]:
        """What is to be added to a trial's run, up to which epoch, and in which state that is.

        Args:
            record: Of the trial.
            new_id: For its run, if it has none yet.
        """
        number, state, history = record.number, record.state, list(record.history)
        run_id, done = self._run_ids.get(number), self._synced_epochs.get(number, 0)
        new = run_id is None
        tags = end_tags(record, self._sweep.objective)
        params = {}
        if new:
            made = run_tags(self._sweep, self._sweep_id, record, self._parent_id)
            tags = {**made, **tags}
        if number not in self._synced_epochs:
            params = run_parameters(self._sweep, record)
        times = self._times_before.get(number, {})
        change = RunChange(
            run_id or new_id,
            (record.label, int(1000 * record.started)) if new else None,
            {name: redact(value) for name, value in params.items()},
            list(run_metrics(history[done:], times)),
            {name: redact(value) for name, value in tags.items()},
        )
        return change, len(history), state

    def _tell_progress(self) -> None:
        """Describe on the sweep's own run how far it is, now and then."""
        if time.monotonic() < self._progress_due:
            return
        text = running_description(self._sweep, Ranking(self._ended.values(), self._sweep.rule))
        with suppress(RunRefusedError), self._blamed(None):
            self._log(self._parent_id, tags={_DESCRIPTION: text})
        self._progress_due = time.monotonic() + _SECONDS_BETWEEN_PROGRESS

    def machines(self, samples: Sequence[MachineSample]) -> None:
        """Write on the sweep's own run how busy its machines were.

        Args:
            samples: When, in seconds since the epoch, and what was measured.

        Raises:
            RunRefusedError: The sweep's own run was deleted, or MLflow does not take it.
            Exception: Whatever MLflow raises, where it does not answer.
        """
        self.connect()
        with self._blamed(None):
            if self._began is None:
                self._began = self._client.get_run(self._parent_id).info.start_time / 1000
            metrics = [
                (f"system/{name}", value, int(1000 * when), int(when - self._began))
                for when, values in samples
                for name, value in values.items()
            ]
            self._log(self._parent_id, metrics=metrics)

    def complete(self, record: TrialRecord) -> None:
        """Add the files of a trial that has ended, and close its run.

        Raises:
            ArtifactError: The trial's files cannot be gathered. Its metrics are there; its run
                stays open, so that a later sync tries again.
            FilesAwayError: They cannot be gathered now.
            RunRefusedError: As above.
            Exception: As above.
        """
        if record.number in self._complete:
            return
        with self._blamed(record.number):
            self._end_run(record)
        self._complete.add(record.number)

    def answer(self, ending: Ending) -> None:
        """Write the answer to the sweep's own run, and to each trial's its place.

        Args:
            ending: Of the sweep.

        Raises:
            RunRefusedError: The sweep's own run was deleted, or MLflow does not take it.
            Exception: Whatever MLflow raises, where it does not answer.
        """
        self.connect()
        ranking, summary = ending.ranking, finite(ending.answer)
        chosen = summary.get("chosen") or {}
        values = {
            f"best_{split}_{name}": value
            for split in ("val", "test")
            for name, value in chosen.get(split, {}).items()
            if value is not None
        }
        with self._blamed(None):
            now = int(1000 * time.time())
            metrics = [(name, value, now, 0) for name, value in values.items()]
            tags = {_DESCRIPTION: description(self._sweep, ending.answer)}
            if chosen:
                tags["best_loss"] = chosen["loss"]
            if summary.get("verdict"):
                tags["verdict"] = summary["verdict"]
            self._log(self._parent_id, metrics=metrics, tags=tags)
            self._client.log_dict(self._parent_id, summary, "selection.json")
        for number, place in islice(places(ranking), _PLACES):
            self._put(number, place)
        if ranking.chosen is not None:
            for record in ranking.chosen.trials:
                self._mark(record)

    def end(self, ending: Ending) -> None:
        """Add the report and pictures to the sweep's own run, and close it.

        Args:
            ending: Of the sweep.

        Raises:
            RunRefusedError: As above.
            Exception: As above.
        """
        files = story_files(self._sweep, self._store, ending)
        with self._blamed(None):
            for name, text in files.items():
                self._client.log_text(self._parent_id, text, name)
            began = self._client.get_run(self._parent_id).info.start_time
            ended = [int(1000 * record.ended) for record in ending.ranking.records if record.ended]
            # Not now: `calsweep sync` may come days later.
            self._client.set_terminated(self._parent_id, ending.status, max([began, *ended]))
        with suppress(OSError):  # of the storage; the ids are a convenience
            there = {n: run for n, run in self._run_ids.items() if n not in self._deleted}
            self._store.save_run_ids(self._parent_id, there)

    def _put(self, number: int, place: str) -> None:
        run_id = self._run_ids.get(number)
        if run_id is not None and number not in self._deleted:
            with suppress(RunRefusedError), self._blamed(number):
                self._client.set_tag(run_id, PLACE, place)

    def _mark(self, record: TrialRecord) -> None:
        run_id = self._run_ids.get(record.number)
        if run_id is not None and record.number not in self._deleted:
            with suppress(RunRefusedError), self._blamed(record.number):
                self._client.update_run(run_id, name=f"★ {record.label}")

    def _find_runs(self, client: Any) -> Any:
        """Find what an earlier run of this sweep wrote; the sweep's own run, or None."""
        from mlflow.entities import ViewType

        parent, token = None, None
        own = f"tags.`calsweep.sweep_id` = '{self._sweep_id}'"
        while True:
            page = client.search_runs(
                [self._experiment_id], own, ViewType.ALL, max_results=1000, page_token=token
            )
            for run in page:
                if "calsweep.trial" not in run.data.tags:
                    parent = run
                    continue
                number = int(run.data.tags["calsweep.trial"])
                self._run_ids[number] = run.info.run_id
                self._artifact_uris[number] = run.info.artifact_uri
                if deleted(run):
                    self._deleted.add(number)
                elif run.info.end_time is not None:
                    self._complete.add(number)
                else:
                    self._found[number] = set(run.data.params)
            token = page.token
            if not token:
                return parent

    def _make_parent(self, client: Any) -> str:
        from mlflow.entities import DatasetInput

        sweep = self._sweep
        run = client.create_run(
            self._experiment_id,
            run_name=sweep.name,
            tags={
                "calsweep.sweep": sweep.name,
                "calsweep.sweep_id": self._sweep_id,
                "role": "sweep",
                "mlflow.source.name": "calsweep",
                PLACE: f"{0:>5} sweep",
                _DESCRIPTION: running_description(sweep),
                **({_COMMIT: self._commit} if self._commit else {}),
            },
        )
        identity = read_identity(self._store.folder)
        if identity is not None:
            data = DatasetInput(dataset_entity(sweep, identity), [])
            client.log_inputs(run.info.run_id, datasets=[data])
        return str(run.info.run_id)

    def _describe_parent(self, client: Any, known: set[str]) -> None:
        parameters = sweep_parameters(self._sweep, self._digest)
        client.log_batch(self._parent_id, params=_new_params(parameters, known))
        for name, text in self._shared.items():
            client.log_text(self._parent_id, text, name)

    def _show(self, record: TrialRecord) -> None:
        """Parameters, metrics and how it ended: what MLflow's table of runs shows."""
        number = record.number
        run_id = self._run_ids.get(number) or self._make_run(record)
        # A run from before may lack anything: only what we wrote ourselves is there.
        done = self._synced_epochs.get(number)
        if done is None and number in self._found:
            self._times_before[number] = self._epoch_times(run_id)
        known = self._found.get(number, set())
        history, state = list(record.history), record.state
        self._log(
            run_id,
            _new_params(run_parameters(self._sweep, record), known) if done is None else [],
            run_metrics(history[done or 0 :], self._times_before.get(number, {})),
            end_tags(record, self._sweep.objective),
        )
        self._synced_epochs[number] = len(history)
        self._shown[number] = len(history), state

    def _make_run(self, record: TrialRecord) -> str:
        run = self._client.create_run(
            self._experiment_id,
            start_time=int(1000 * record.started),
            run_name=record.label,
            tags=run_tags(self._sweep, self._sweep_id, record, self._parent_id),
        )
        self._run_ids[record.number] = run_id = str(run.info.run_id)
        self._artifact_uris[record.number] = run.info.artifact_uri
        return run_id

    def _epoch_times(self, run_id: str) -> dict[int, int]:
        """The time stamps of a run's epochs, in milliseconds.

        An epoch that had to be trained again (its checkpoint was damaged) keeps that of its first
        time, or its metrics would be there twice.
        """
        # A training loop of the user's own need not tell train_loss, an encoder has no val_nll.
        history = self._client.get_metric_history(run_id, "val_nll")
        history = history or self._client.get_metric_history(run_id, "train_loss")
        return {metric.step: metric.timestamp for metric in history}

    def _log(
        self,
        run_id: str,
        params: Iterable[Any] = (),
        metrics: Iterable[tuple[str, float, int, int]] = (),
        tags: dict[str, str] | None = None,
    ) -> None:
        """Write all of it in one call, or in as few as MLflow's limit on metrics allows."""
        from mlflow.entities import Metric, RunTag

        entities = [Metric(*metric) for metric in metrics]
        cut = max(0, len(entities) - _METRICS_PER_CALL + _SMALL_CHANGE)
        for start in range(0, cut, _METRICS_PER_CALL):
            self._client.log_batch(run_id, entities[start : min(cut, start + _METRICS_PER_CALL)])
        run_tags = [RunTag(name, redact(value)) for name, value in (tags or {}).items()]
        self._client.log_batch(run_id, entities[cut:], list(params), run_tags)

    def _end_run(self, record: TrialRecord) -> None:
        run_id = self._run_ids[record.number]
        with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            gather_artifacts(self._store, record, self._shared, Path(folder))
            upload(folder, self._artifact_uris[record.number], self._client.tracking_uri)
        status = "FAILED" if record.state == "failed" else "FINISHED"
        ended = int(1000 * record.ended) if record.ended else None
        self._client.set_terminated(run_id, status, ended)

    @contextmanager
    def _blamed(self, number: int | None) -> Iterator[None]:
        """Ask MLflow whose fault an error in the block is: the run's, where it answers.

        Args:
            number: Of the run's trial; None for the sweep's own.

        Raises:
            RunRefusedError: It is.
            Exception: Whatever MLflow raises, where it does not answer.
        """
        who = "the sweep's own run" if number is None else f"trial {number}: its run"
        if number in self._deleted:
            raise RunDeletedError(f"{who} was deleted in MLflow")
        try:
            with writes_to(self._experiment):
                yield
        except (ArtifactError, FilesAwayError):
            raise
        except Exception as error:
            with writes_to(self._experiment):
                experiment = self._client.get_experiment(self._experiment_id)
            if deleted(experiment):
                raise RunRefusedError(
                    f"{who} is lost: the experiment {experiment.name!r} was deleted in MLflow"
                ) from error
            run_id = self._parent_id if number is None else self._run_ids.get(number)
            if run_id is not None and self._is_gone(run_id):
                if number is not None:
                    self._deleted.add(number)
                raise RunDeletedError(f"{who} was deleted in MLflow") from error
            raise RunRefusedError(f"{who} is refused by MLflow: {first_line(error)}") from error

    def _is_gone(self, run_id: str) -> bool:
        from mlflow.exceptions import MlflowException

        try:
            return deleted(self._client.get_run(run_id))
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return True


def _new_params(values: dict[str, str], known: set[str]) -> list[Any]:
    """Those that a run does not have yet: MLflow refuses to change one."""
    from mlflow.entities import Param

    return [Param(name, redact(value)) for name, value in values.items() if name not in known]
