"""Files of a sweep that are damaged or cannot be read: one message, no traceback, whoever reads."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.errors import CommandError
from sweeps.results.explanation import answer
from sweeps.search.ranking import Ranking
from sweeps.upkeep import overviews, read_answer, sync_sweep, write_report
from tests.builders import make_sweep
from tests.harness.tracked import make_records, make_store

Damage = Callable[[Path], None]


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_short(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: 2 * len(data) // 3])


def no_text(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def another_kind(path: Path) -> None:
    path.write_text("[3]")


def lacks_its_keys(path: Path) -> None:
    path.write_text("{}")


def unreadable(path: Path) -> None:
    """What the storage refuses to read, whoever asks."""
    path.unlink()
    path.mkdir()


DAMAGES = [empty, cut_short, no_text, another_kind, lacks_its_keys, unreadable]
FILES = [
    "answer.json",
    "environment.json",
    "identity.json",
    "sweep.yaml",
    "sweep_id",
    "trials/00002/trial.json",
    "trials/00002/predictions_test.parquet",
]


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A sweep that has come to its answer."""
    sweep, records = make_sweep("done", training={"epochs": 3}), make_records()
    store = make_store(tmp_path, sweep, records, digest="d1")
    store.save_answer(answer(Ranking(records, sweep.rule), sweep), print)
    return tmp_path


def all_readers(storage: Path) -> dict[str, str]:
    """What each command that reads a sweep says against it."""
    readers: dict[str, Callable[[], object]] = {
        "show": lambda: read_answer("done", str(storage)),
        "list": lambda: overviews(str(storage)),
        "report": lambda: write_report("done", str(storage), str(storage / "page.html")),
        "sync": lambda: sync_sweep("done", str(storage)),
    }
    said = {}
    for name, read in readers.items():
        try:
            read()
        except CommandError as error:
            said[name] = str(error)
    return said


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_whatever_is_damaged_is_told(storage: Path, damage: Damage) -> None:
    for name in FILES:
        path = storage / "sweeps/done" / name
        before = path.read_bytes()
        damage(path)
        for command, message in all_readers(storage).items():
            assert message and "\n\n" not in message, (name, command)
        if path.is_dir():
            path.rmdir()
        path.write_bytes(before)
