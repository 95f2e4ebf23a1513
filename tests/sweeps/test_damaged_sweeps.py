"""Damaged or unreadable files of a sweep: one message, no traceback, in every command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.errors import CommandError, UserError
from sweeps.results.explanation import result_of
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.reading.finding import find_best, overviews, read_answer
from sweeps.service.reading.writing import write_report
from sweeps.service.upkeep import sync_sweep
from tests.builders import make_sweep, new_store
from tests.harness.tracked import make_records, make_store

Damage = Callable[[Path], None]


def cut_short(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: 2 * len(data) // 3])


def no_text(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def lacks_its_keys(path: Path) -> None:
    path.write_text("{}")


def unreadable(path: Path) -> None:
    """Makes a file unreadable for all processes."""
    path.unlink()
    path.mkdir()


DAMAGES = [cut_short, no_text, lacks_its_keys, unreadable]
FILES = [
    "answer.json",
    "environment.json",
    "identity.json",
    "mlflow_runs.json",
    "sweep.yaml",
    "sweep_id",
    "trials/00002/trial.json",
    "trials/00002/predictions_test.parquet",
]
TOLD_BY = {
    "sweep.yaml": {"show", "report", "sync", "best"},  # a list skips the sweep
    "sweep_id": {"sync"},
    "environment.json": {"report", "sync"},
    "trials/00002/trial.json": {"sync"},  # the others log it and continue
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep that is in MLflow."""
    folder = tmp_path_factory.mktemp("store")
    sweep = make_sweep("done", training={"epochs": 3})
    records = [record for record in make_records() if record.number in (0, 2, 5)]
    store = make_store(folder, sweep, records, digest="d1")
    store.save_answer(result_of(Ranking(records, rule_of(sweep)), Plan(sweep)).to_json())
    sync_sweep("done", str(folder))
    return folder


def all_readers(storage: Path, sync: bool) -> dict[str, str]:
    """The error of each command that reads the sweep, if any."""
    readers: dict[str, Callable[[], object]] = {
        "show": lambda: read_answer("done", str(storage)),
        "list": lambda: overviews(str(storage)),
        "best": lambda: find_best(str(storage)),
        "report": lambda: write_report("done", str(storage), str(storage / "page.html")),
    }
    if sync:
        readers["sync"] = lambda: sync_sweep("done", str(storage))
    said = {}
    for name, read in readers.items():
        try:
            read()
        except CommandError as error:
            said[name] = str(error)
    return said


@pytest.mark.parametrize(
    ("damage", "sync"),
    [
        *(pytest.param(damage, False, id=damage.__name__) for damage in DAMAGES),
        pytest.param(cut_short, True, id="cut_short, with sync", marks=pytest.mark.slow),
        pytest.param(unreadable, True, id="unreadable, with sync", marks=pytest.mark.slow),
    ],
)
def test_any_damaged_file_is_reported(
    storage: Path, damage: Damage, sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.tracking.retrying._PAUSES", (0.0, 0.0))
    monkeypatch.setattr("sweeps.service.upkeep._PATIENCE_SECONDS", 0.5)
    for name in FILES:
        path = storage / "sweeps/done" / name
        before = path.read_bytes()
        damage(path)
        said = all_readers(storage, sync)
        assert all(said.values()), (name, said)
        if name in TOLD_BY:
            assert said.keys() >= TOLD_BY[name] - (set() if sync else {"sync"}), (name, said)
        if path.is_dir():
            path.rmdir()
        path.write_bytes(before)


def test_a_list_continues_without_a_damaged_sweep(
    storage: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new_store(storage, make_sweep("damaged"))
    (storage / "sweeps/damaged/sweep.yaml").write_text("losses: [")
    assert [found.name for found in overviews(str(storage))] == ["done"]
    assert "damaged" in caplog.text


def test_a_storage_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "sweeps").write_text("no folder")
    with pytest.raises(UserError, match=r"storage = .* cannot be used"):
        overviews(str(tmp_path))
