"""The sweep's own run in MLflow, under which those of its trials are shown."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from sweeps.messages.formatting import finite
from sweeps.messages.redaction import redact
from sweeps.results.columns import shown_metrics
from sweeps.results.result import Ending
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.store.first_files import SKIPPED, read_skipped
from sweeps.store.identity import Identity, read_environment, read_identity
from sweeps.store.journal import owner_of
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.run import (
    ADVICE,
    DESCRIPTION,
    KILLED,
    RANK,
    SWEEP,
    is_statistic,
    sweep_parameters,
)
from sweeps.tracking.run_content import (
    dataset_entity,
    description,
    journal_tags,
    running_description,
)
from sweeps.tracking.run_files import RunFiles

_ADVICE = ("loss", "hyperparameters", "name", "better_reference")
_COMMIT = "mlflow.source.git.commit"


class SweepRun:
    """The sweep's own run: the one that was found, or a new one.

    `files` are names and contents of the files that every run of the sweep has.
    """

    def __init__(
        self, client: Any, experiment_id: str, plan: Plan, store: SweepStore, found: Any
    ) -> None:
        self._client = client
        self._plan = plan
        self._store = store
        self.files = {"sweep.yaml": redact(store.folder.read("sweep.yaml").decode())}
        environment = read_environment(store.folder)  # not this machine's, which may just sync
        if environment is not None:
            self.files["environment.json"] = json.dumps(environment, indent=1)
        identity = read_identity(store.folder)
        run = found or self._make(experiment_id, environment or {})
        self.id = str(run.info.run_id)
        self._began = run.info.start_time
        self._run_files = RunFiles.of(run, client.tracking_uri)
        self._describe(run, identity)
        self._has_answer = store.load_answer() is not None
        if run.info.status != "RUNNING" and not self._has_answer:
            client.update_run(self.id, status="RUNNING")

    def _make(self, experiment_id: str, environment: Mapping[str, Any]) -> Any:
        owner = owner_of(self._store.folder)
        commit = str(environment.get("commit") or "").removesuffix("-dirty")
        return self._client.create_run(
            experiment_id,
            run_name=self._plan.name,
            tags={
                "calsweep.sweep": self._plan.name,
                "calsweep.sweep_id": self._store.sweep_id(),
                "role": "sweep",
                "mlflow.source.name": "calsweep",
                **({"mlflow.user": owner.partition("@")[0]} if owner else {}),
                SWEEP: self._plan.name,
                RANK: "     –",  # sorts before the ranks of trials
                DESCRIPTION: running_description(self._plan),
                **({_COMMIT: commit} if commit else {}),
            },
        )

    def _describe(self, run: Any, identity: Identity | None) -> None:
        from mlflow.entities import DatasetInput

        parameters = sweep_parameters(self._plan, identity.digest if identity else None)
        log(
            self._client,
            self.id,
            params=missing(parameters, run.data.params),
            tags=journal_tags(self._store.folder),
        )
        skipped = read_skipped(self._store.folder)
        self._run_files.write(self.files | ({SKIPPED: skipped} if skipped else {}))
        if identity is not None and not (run.inputs and run.inputs.dataset_inputs):
            data = DatasetInput(dataset_entity(self._plan, identity), [])
            self._client.log_inputs(self.id, datasets=[data])

    def progress(self, ranking: Ranking) -> None:
        """Describe how far the sweep is, unless it has finished."""
        if self._has_answer:
            return
        log(self._client, self.id, tags={DESCRIPTION: running_description(self._plan, ranking)})

    def suspend(self) -> None:
        """End the run as killed, unless the sweep has a result."""
        log(self._client, self.id, tags=journal_tags(self._store.folder))
        if not self._has_answer:
            self._client.set_terminated(self.id, KILLED)

    def answer(self, ending: Ending) -> None:
        summary = finite(ending.result.to_json())
        chosen = summary.get("chosen") or {}
        now = int(1000 * time.time())
        values = {
            f"best_{split}_{name}": value
            for split in ("val", "test")
            for name, value in chosen.get(split, {}).items()
            if not is_statistic(name)  # these are in selection.json
        }
        if (ensemble := ending.result.evidence.ensemble) is not None:
            rare = ending.ranking.rare_class
            shown = shown_metrics(self._plan.rule.objective, rare=rare)
            values |= finite({f"ensemble_{name}": ensemble.row.value(name) for name in shown})
            values["ensemble_networks"] = ensemble.networks
        event, tags = ending.result.evidence.event, dict[str, str]()
        if event is not None:
            share = event.share
            values |= {"event_mean_probability": share.mean, "event_rate": share.frequency}
            own = (f"event_{name.removeprefix('event_')}" for name in event.figures)
            values |= {name: v for name, (v, *_) in zip(own, event.figures.values(), strict=True)}
            tags["event"] = event.line
        values = finite(values)
        metrics = [(name, value, now, 0) for name, value in values.items() if value is not None]
        tags[DESCRIPTION] = description(self._plan, ending.result)
        if chosen:
            tags["best_loss"] = chosen["loss"]
        if summary["recommended"]:
            tags["recommended"] = summary["recommended"]["name"]
            tags[ADVICE] = json.dumps({key: summary["recommended"][key] for key in _ADVICE})
        if summary.get("verdict"):
            tags["verdict"] = summary["verdict"]
        tags["candidates"] = str(summary["candidates"])
        log(self._client, self.id, metrics=metrics, tags=tags)
        self._run_files.write({"selection.json": json.dumps(summary, indent=2)})

    def end(self, ending: Ending) -> None:
        self._run_files.write(ending.files())
        self.terminate(ending)

    def terminate(self, ending: Ending) -> None:
        """End the run when its last trial ended."""
        ended = [int(1000 * record.ended) for record in ending.ranking.records if record.ended]
        # Not now: `calsweep sync` may come days later.
        self._client.set_terminated(self.id, ending.status, max([self._began, *ended]))


def log(
    client: Any,
    run_id: str,
    params: Mapping[str, str] | None = None,
    metrics: Iterable[tuple[str, float, int, int]] = (),
    tags: Mapping[str, str] | None = None,
) -> None:
    """Write parameters, metrics and tags of a run in one call, without credentials.

    Metrics have a time stamp in milliseconds and a step; MLflow drops those that it has. The
    parameters must be new. MLflow's client divides what is more than its server takes at once.
    """
    from mlflow.entities import Metric, Param, RunTag

    client.log_batch(
        run_id,
        [Metric(*metric) for metric in metrics],
        [Param(name, redact(value)) for name, value in (params or {}).items()],
        [RunTag(name, redact(value)) for name, value in (tags or {}).items()],
    )


def missing(values: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The parameters that a run does not have yet: MLflow refuses to change one."""
    there = set(known)
    return {name: value for name, value in values.items() if name not in there}
