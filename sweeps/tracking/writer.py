"""Mirrors a sweep into MLflow from one background thread.

The sweep store is the truth and MLflow its mirror: :meth:`MlflowWriter.sync` brings one trial's
run up to date and may be repeated at will (the metrics carry the time stamps of their epochs, and
MLflow drops what it has already). So a tracking server that goes away loses nothing and stops
nothing, and the same code serves a running sweep, a resumed one and ``calsweep sync``.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweeps.redaction import redact
from sweeps.results.columns import shown_metrics
from sweeps.search.record import TrialRecord
from sweeps.search.space import SearchSpace
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import VIEW_KEY, artifact_location, make_database, tracking_uri
from sweeps.tracking.artifacts import ArtifactError, gather_artifacts

logger = logging.getLogger("calsweep")

_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development", "calsweep": "1"}
_METRICS_PER_CALL = 1000  # MLflow's limit on all things in one call
_SMALL_CHANGE = 100  # of which parameters and tags may take this many
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0


class MlflowWriter:
    """Keeps MLflow in step with a sweep's records.

    Args:
        sweep: The sweep.
        store: Its store.
        environment: Versions and the like, an artifact of every run.
    """

    def __init__(self, sweep: SweepFile, store: SweepStore, environment: dict[str, Any]) -> None:
        self._sweep = sweep
        self._store = store
        self._uri = tracking_uri(store.storage, sweep)
        self._shared = {
            "sweep.yaml": redact(store.folder.read("sweep.yaml").decode()),
            "environment.json": json.dumps(environment, indent=1),
        }
        self._sweep_id = store.sweep_id()
        self._client: Any = None
        self._experiment_id = ""
        self._parent_id = ""
        self._run_ids: dict[int, str] = {}
        self._complete: set[int] = set()
        self._synced_epochs: dict[int, int] = {}
        self._times_before: dict[int, dict[int, int]] = {}  # of the epochs of runs found
        self._pending: dict[int, TrialRecord] = {}
        self._set_aside = 0  # trials whose files cannot be gathered
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.fault: str | None = None

    def submit(self, record: TrialRecord) -> None:
        """A record changed; its run will be brought up to date soon, by a background thread.

        The thread starts with the first results: making MLflow's database takes some seconds of
        CPU that the starting workers need more.
        """
        with self._lock:
            self._pending[record.number] = record
        if self._thread is None and record.history:
            self._start()
        self._wake.set()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="mlflow-writer", daemon=True)
        self._thread.start()

    @property
    def behind(self) -> int:
        """How many trials are not up to date in MLflow."""
        with self._lock:
            return len(self._pending)

    def close(self, patience: float, on_wait: Callable[[int], None] | None = None) -> int:
        """Write what is left and stop.

        Args:
            patience: Seconds to wait without any progress, should the server not answer.
            on_wait: Called now and then with the number of trials left.

        Returns:
            How many trials could not be brought up to date.
        """
        self._closing = True
        if self._thread is None and self.behind:
            self._start()
        self._wake.set()
        left, since = self.behind, time.monotonic()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.2)
            if on_wait is not None:
                on_wait(self.behind)
            if self.behind != left:
                left, since = self.behind, time.monotonic()
            if self.fault is not None and time.monotonic() - since > patience:
                break
        return self.behind + self._set_aside

    def finish_sweep(self, status: str, summary: dict[str, Any]) -> None:
        """Close the parent run.

        Args:
            status: ``FINISHED``, ``FAILED`` or ``KILLED``.
            summary: What was chosen, as an artifact and, its numbers, as metrics.
        """
        self._connect()
        self._client.log_dict(self._parent_id, summary, "selection.json")
        chosen = summary.get("chosen") or {}
        for split in ("val", "test"):
            for name, value in chosen.get(split, {}).items():
                self._client.log_metric(self._parent_id, f"best_{split}_{name}", value)
        if chosen:
            self._client.set_tag(self._parent_id, "best_loss", chosen["loss"])
        self._client.set_terminated(self._parent_id, status)

    def sync(self, record: TrialRecord) -> None:
        """Bring the run of one trial up to date with its record.

        Raises:
            ArtifactError: The trial's files cannot be gathered. Its metrics are there; its run
                stays open, so that a later sync tries again.
        """
        self._connect()
        if record.number in self._complete:
            return
        ended = record.state != "running"
        found = self._run_ids.get(record.number)
        run_id = found or self._create_run(record)
        # A run found from before may lack anything: only what we wrote ourselves is there.
        done = self._synced_epochs.get(record.number)
        if found and done is None:
            self._times_before[record.number] = self._epoch_times(run_id)
        times = self._times_before.get(record.number, {})
        history = list(record.history)
        parameters = self._parameters(record) if done is None else {}
        tags = {"state": record.state, "reason": record.reason} if ended else {}
        self._log(run_id, parameters, history[done or 0 :], times, tags)
        self._synced_epochs[record.number] = len(history)
        if ended:
            self._end_run(run_id, record)
            self._complete.add(record.number)

    def _work(self) -> None:
        pause = _PAUSE_SECONDS
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if not self._closing:
                time.sleep(_PAUSE_SECONDS)  # let changes gather, so that one call carries many
            with self._lock:
                batch = list(self._pending.values())
            try:
                self._connect()
                for record in batch:
                    self._sync_pending(record)
                self.fault, pause = None, _PAUSE_SECONDS
            except Exception as error:  # whatever it is, the sweep goes on without MLflow
                self.fault = str(error).splitlines()[0] if str(error) else type(error).__name__
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            if self._closing and self.behind == 0:
                return

    def _sync_pending(self, record: TrialRecord) -> None:
        epochs, state = len(record.history), record.state
        try:
            self.sync(record)
        except ArtifactError as error:  # no other trial's fault, so it must not hold them up
            logger.error("not in MLflow in full: %s", error)
            self._set_aside += 1
        with self._lock:
            if (len(record.history), record.state) == (epochs, state):
                self._pending.pop(record.number, None)

    def _connect(self) -> None:
        if self._client is not None:
            return
        from mlflow import MlflowClient

        make_database(self._uri)
        client = MlflowClient(tracking_uri=self._uri)
        self._experiment_id = _experiment(client, self._sweep, self._store.storage, self._uri)
        self._parent_id = self._find_runs(client) or self._create_parent(client)
        self._describe_parent(client)
        self._client = client

    def _find_runs(self, client: Any) -> str:
        """Find what an earlier run of this sweep wrote; the parent's id, or nothing."""
        parent, token = "", None
        own = f"tags.`calsweep.sweep_id` = '{self._sweep_id}'"
        while True:
            page = client.search_runs(
                [self._experiment_id], own, max_results=1000, page_token=token
            )
            for run in page:
                number = run.data.tags.get("calsweep.trial")
                if number is None:
                    parent = str(run.info.run_id)
                    continue
                self._run_ids[int(number)] = run.info.run_id
                if run.info.end_time is not None:
                    self._complete.add(int(number))
            token = page.token
            if not token:
                return parent

    def _create_parent(self, client: Any) -> str:
        sweep = self._sweep
        run = client.create_run(
            self._experiment_id,
            run_name=sweep.name,
            tags={
                "calsweep.sweep": sweep.name,
                "calsweep.sweep_id": self._sweep_id,
                "role": "sweep",
                "mlflow.source.name": "calsweep",
            },
        )
        return str(run.info.run_id)

    def _describe_parent(self, client: Any) -> None:
        sweep = self._sweep
        parameters = {
            "dataset": sweep.dataset.label,
            "model": sweep.model_label,
            "losses": " ".join(section.name for section in sweep.losses),
            "trials": sweep.search.trials,
            "seed": sweep.search.seed,
            "objective": sweep.search.objective,
            "guard": sweep.search.guard,
        }
        client.log_batch(self._parent_id, params=_params(parameters))
        for name, text in self._shared.items():
            client.log_text(self._parent_id, text, name)

    def _create_run(self, record: TrialRecord) -> str:
        run = self._client.create_run(
            self._experiment_id,
            start_time=int(1000 * record.started),
            run_name=record.label,
            tags={
                "mlflow.parentRunId": self._parent_id,
                "mlflow.source.name": "calsweep",
                "calsweep.sweep": self._sweep.name,
                "calsweep.sweep_id": self._sweep_id,
                "calsweep.trial": str(record.number),
                # Exact values; the parameters are written so that they read and sort well.
                "calsweep.hyperparameters": json.dumps(record.hyperparameters),
                "role": record.role,
                "state": record.state,
            },
        )
        run_id = str(run.info.run_id)
        self._run_ids[record.number] = run_id
        return run_id

    def _epoch_times(self, run_id: str) -> dict[int, int]:
        """The time stamps of a run's epochs, in milliseconds.

        An epoch that had to be trained again (its checkpoint was damaged) keeps that of its first
        time, or its metrics would be there twice.
        """
        history = self._client.get_metric_history(run_id, "train_loss")
        return {metric.step: metric.timestamp for metric in history}

    def _parameters(self, record: TrialRecord) -> dict[str, Any]:
        encoder = self._sweep.encoder if record.role == "encoder" else None
        training = (encoder or self._sweep).training
        return {
            "loss": record.loss,
            **{name: _sortable(value) for name, value in record.hyperparameters.items()},
            "seed": record.seed,
            "dataset": self._sweep.dataset.label,
            "model": self._sweep.model_label,
            "epochs": training.epochs,
            "batch_size": training.batch_size,
            "optimizer": training.optimizer,
            "lr": training.lr,
            "weight_decay": training.weight_decay,
            "guard": self._sweep.search.guard,
            "objective": self._sweep.search.objective,
        }

    def _log(
        self,
        run_id: str,
        parameters: dict[str, Any],
        entries: list[dict[str, float]],
        times: dict[int, int],
        tags: dict[str, str | None],
    ) -> None:
        """Write all of it in one call, or in as few as MLflow's limit on metrics allows."""
        from mlflow.entities import Metric, RunTag

        metrics = [
            Metric(name, float(value), time_stamp, epoch)
            for entry in entries
            for epoch in [int(entry["epoch"])]
            for time_stamp in [times.get(epoch, int(1000 * entry["timestamp"]))]
            for name, value in entry.items()
            if name not in ("epoch", "timestamp")
        ]
        cut = max(0, len(metrics) - _METRICS_PER_CALL + _SMALL_CHANGE)
        for start in range(0, cut, _METRICS_PER_CALL):
            self._client.log_batch(run_id, metrics[start : min(cut, start + _METRICS_PER_CALL)])
        self._client.log_batch(
            run_id,
            metrics[cut:],
            _params(parameters),
            [RunTag(name, redact(value)) for name, value in tags.items() if value],
        )

    def _end_run(self, run_id: str, record: TrialRecord) -> None:
        with tempfile.TemporaryDirectory(prefix="calsweep-") as folder:
            gather_artifacts(self._store, record, self._shared, Path(folder))
            self._client.log_artifacts(run_id, folder)
        status = "FAILED" if record.state == "failed" else "FINISHED"
        ended = int(1000 * record.ended) if record.ended else None
        self._client.set_terminated(run_id, status, ended)


def _experiment(client: Any, sweep: SweepFile, storage: str, uri: str) -> str:
    """The id of the dataset's experiment, made if it is not there."""
    name = sweep.dataset.label
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        place = artifact_location(uri, storage)
        place = f"{place}/{name}" if place else None
        experiment_id = client.create_experiment(name, place, tags=_EXPERIMENT_TAGS)
        known: set[str] = set()
    else:
        experiment_id = experiment.experiment_id
        known = _viewed_parameters(experiment.tags)
    if view := _view(sweep, known | SearchSpace(sweep).searched_hyperparameters):
        client.set_experiment_tag(experiment_id, f"mlflow.sharedViewState.{VIEW_KEY}", view)
    return str(experiment_id)


def _view(sweep: SweepFile, parameters: set[str]) -> str:
    """Which columns MLflow's table of runs shows, and how it is sorted, by ``calsweep ui``'s link.

    This is the form in which MLflow keeps a view that somebody shared.
    """
    columns = [f"params.`{name}`" for name in ("loss", *sorted(parameters))]
    columns += [f"metrics.`{name}`" for name in shown_metrics(sweep.search.objective)]
    columns += ["tags.`role`", "tags.`state`"]
    order = f"metrics.`{sweep.search.objective}`"
    return json.dumps({"selectedColumns": columns, "orderByKey": order, "orderByAsc": True})


def _viewed_parameters(tags: dict[str, str]) -> set[str]:
    """The parameters that the experiment's view shows already."""
    view = json.loads(tags.get(f"mlflow.sharedViewState.{VIEW_KEY}", "{}"))
    shown = view.get("selectedColumns", [])
    return {c[8:-1] for c in shown if c.startswith("params.")} - {"loss"}


def _params(values: dict[str, Any]) -> list[Any]:
    from mlflow.entities import Param

    return [Param(name, redact(str(value))) for name, value in values.items()]


def _sortable(value: Any) -> str:
    """A number right-aligned with fixed decimals: MLflow sorts parameters as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:>14.6f}" if isinstance(value, float) else f"{value:>7d}"
