"""MLflow on SQLite."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.tracking.mirror import Mirror
from sweeps.tracking.writer import MlflowWriter
from tests.harness.database import empty_database
from tests.harness.tracked import ending_of, keep_answer, make_records, make_store, make_sweep


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A storage folder with an empty database."""
    folder = tmp_path / "store"
    folder.mkdir()
    shutil.copyfile(empty_database(), folder / "mlflow.db")
    return folder


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage folder shared by the tests of a module."""
    folder = tmp_path_factory.mktemp("my own store")
    shutil.copyfile(empty_database(), folder / "mlflow.db")
    return folder


@pytest.fixture(scope="module")
def written(storage: Path) -> list[TrialRecord]:
    """A whole sweep, written by the background thread as during a real sweep."""
    sweep, records = make_sweep("whole"), make_records()
    store = make_store(storage, sweep, records)
    writer = MlflowWriter(Mirror(Plan(sweep), store))
    for record in records:
        state, history = record.state, record.history
        growing = replace(record, state="running", ended=None, history=[])
        writer.submit(growing)
        for each in history:
            growing.add(each)
            writer.submit(growing)
        growing.state, growing.reason, growing.ended = state, record.reason, record.ended
        writer.submit(growing)
    keep_answer(store, records, sweep)
    assert writer.close(60, ending_of(records, sweep, store)) == 0
    return records
