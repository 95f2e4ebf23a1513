"""Sweeps whose trials are in a real MLflow."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from mlflow import MlflowClient
from mlflow.entities import Run

from sweeps.results.evidence import NOT_YET, Evidence
from sweeps.results.explanation import result_of
from sweeps.results.result import Ending
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.service.ending import ending_with
from sweeps.service.reading.stored import StoredSweep
from sweeps.store.identity import Identity, identity_files
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.mirror import Mirror
from tests import builders
from tests.builders import write_predictions
from trainables.contract.setting import Setting
from trainables.files.checkpoints import save_checkpoint

ENVIRONMENT = {"python": "3"}


def make_sweep(name: str, **sections: Any) -> SweepFile:
    """A sweep of three epochs."""
    return builders.make_sweep(name, **{"training": {"epochs": 3}, **sections})


def entry(epoch: int, **values: float) -> dict[str, float]:
    """The metrics of an epoch, with values that are not degenerate."""
    validation = {"val_ece": 0.1 / epoch, "val_error": 0.1, "val_nll": 0.5 / epoch}
    test = {"temperature": 1.3, "test_ece": 0.2, "test_error": 0.1, "test_nll": 0.4}
    train = {"train_loss": 1 / epoch}
    return {"epoch": epoch, "timestamp": 1e9 + epoch, **train, **validation, **test, **values}


def make_records() -> list[TrialRecord]:
    """Finished, stopped and failed trials, finalists, and a degenerate one with an ECE of 0."""

    def trial(number: int, loss: str, gamma: float | None, **values: Any) -> TrialRecord:
        hyperparameters = {} if gamma is None else {"gamma": gamma}
        changes = {"ended": 1e9 + 60, "state": "finished", **values}
        made = TrialRecord(
            number, "search", Setting(loss, hyperparameters), 0, 1e9, history=[entry(1)]
        )
        return replace(made, **changes)

    def whole(**last: float) -> list[dict[str, float]]:
        return [entry(1), entry(2), entry(3, **last)]

    ends = {"val_ece_low": 0.01, "val_ece_high": 0.05}
    lucky, steady = 1 / 3, 0.1 + 0.2  # floats with long decimal representations
    return [
        trial(0, "cross_entropy", None, role="baseline", history=whole(val_ece=0.05)),
        trial(1, "focal", lucky, role="published", history=whole(val_ece=0.01)),
        trial(2, "focal", steady, history=whole(val_ece=0.02)),
        trial(3, "focal", 9.0, history=whole(val_ece=0.0, val_error=0.9)),
        trial(4, "focal", 8.0, state="stopped", reason="val_nll too high after epoch 1"),
        trial(5, "focal", 7.0, state="failed", reason="diverged", history=[]),
        trial(6, "focal", lucky, role="finalist", seed=1, history=whole(val_ece=0.04)),
        trial(7, "focal", steady, role="finalist", seed=1, history=whole(val_ece=0.03, **ends)),
    ]


def make_store(
    folder: Path, sweep: SweepFile, records: list[TrialRecord], digest: str | None = None
) -> SweepStore:
    """The store of a new sweep, with these trials and their files.

    Args:
        folder: The storage.
        sweep: The sweep.
        records: Its trials.
        digest: Digest of its data; None for a sweep of an older version.
    """
    store = SweepStore(str(folder), sweep.name)
    identity = {} if digest is None else identity_files(Identity(digest, {}, 10, {}))
    files = {
        "environment.json": json.dumps(ENVIRONMENT).encode(),
        "skipped_samples.txt": b"1 of 40 samples are skipped:\na/1.png: broken",
    }
    store.create(sweep, files={**identity, **files})
    for record in records:
        store.save(record)
        if record.history:
            own = store.trial_folder(record.number)
            save_checkpoint(own / "checkpoints", len(record.history), {"weights": torch.ones(3)})
            for split in ("validation", "test"):
                write_predictions(own, split, (2 * torch.eye(10), torch.arange(10)))
    return store


def make_mirror(
    storage: Path, sweep: SweepFile, records: list[TrialRecord], digest: str | None = None
) -> Mirror:
    """The runs of a new sweep; see :func:`make_store`."""
    return Mirror(Plan(sweep), make_store(storage, sweep, records, digest))


def ending_of(
    records: list[TrialRecord],
    sweep: SweepFile,
    store: SweepStore | None = None,
    evidence: Evidence = NOT_YET,
) -> Ending:
    """How a sweep with these trials ends; with its store, also the files about it."""
    plan, ranking = Plan(sweep), Ranking(records, rule_of(sweep))
    found = result_of(ranking, plan, evidence)
    if store is None:
        return Ending(ranking, found)
    return ending_with(StoredSweep(store, plan, ranking), found)


def keep_answer(store: SweepStore, records: list[TrialRecord], sweep: SweepFile) -> None:
    """Write the end of a sweep with these trials to its store."""
    store.save_answer(ending_of(records, sweep).result.to_json())


def client_of(storage: Path) -> MlflowClient:
    """MLflow's client for a storage."""
    return MlflowClient(tracking_uri(str(storage)))


def runs_of(storage: Path, sweep: str) -> dict[str, Run]:
    """Runs of a sweep by trial number; the parent under ""."""
    client, sweep_id = client_of(storage), SweepStore(str(storage), sweep).sweep_id()
    (experiment,) = client.search_experiments(filter_string="tags.calsweep = '1'")
    own = f"tags.`calsweep.sweep_id` = '{sweep_id}'"
    found = client.search_runs([experiment.experiment_id], own)
    runs = {run.data.tags.get("calsweep.trial", ""): run for run in found}
    assert len(runs) == len(found), "a trial has two runs"
    return runs


def write_whole(mirror: Mirror, record: TrialRecord) -> None:
    """Write a trial, with its files if it has ended."""
    mirror.show(record)
    if record.state != "running":
        mirror.complete(record)


def mirrored(store: SweepStore) -> None:
    """Write a stored sweep to its MLflow."""
    sweep, records = store.load_sweep(), store.load_records()
    ended = ending_of(records, sweep, store)
    mirror = Mirror(Plan(sweep), store)
    for record in records:
        write_whole(mirror, record)
    mirror.answer(ended)
    mirror.end(ended)
