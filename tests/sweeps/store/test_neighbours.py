"""A private or damaged sweep in a shared storage concerns only its owner."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.service.reading.finding import find_best, overviews
from sweeps.service.reading.stored import sweeps_on_test_split
from sweeps.service.running import run_sweep
from sweeps.store.earlier_sweeps import read_known, recorded_for
from sweeps.store.identity import Identity, identity_files
from sweeps.store.storage import sweep_names
from sweeps.store.sweep_store import SweepStore
from tests.builders import baseline, make_sweep, new_store, trial
from trainables.files.storage import Folder

GUIDED = {"search": {"sampler": "guided"}}
IDENTITY = identity_files(Identity("d1", {}, 10, {}))


def make_private(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse all reads below a folder, like mode 700 of another user; root would not notice it."""

    def refusing(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(folder: Folder, *arguments: Any) -> Any:
            if Path(folder.path).is_relative_to(path):
                raise PermissionError(errno.EACCES, "Permission denied", folder.path)
            return method(folder, *arguments)

        return call

    for name in ("read", "exists", "names"):
        monkeypatch.setattr(Folder, name, refusing(getattr(Folder, name)))


def make_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [
    ("", make_private),
    ("trials", make_private),
    ("answer.json", make_folder),
    ("identity.json", make_folder),
    ("sweep_id", make_folder),
    ("sweep.yaml", make_folder),
    ("trials/00001/trial.json", make_folder),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_a_neighbour_stops_no_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    damage: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    storage = str(tmp_path)
    for sweep in ("mine", "theirs"):
        store = new_store(tmp_path, make_sweep(sweep, **GUIDED), [baseline(), trial(1)], IDENTITY)
        store.save_answer({"verdict": None})
    damage(tmp_path / "sweeps" / "theirs" / name, monkeypatch)
    assert "mine" in [each.name for each in overviews(storage)]
    assert find_best(storage).entries
    assert "mine" in {each.source for each in recorded_for(make_sweep("new", **GUIDED), storage)}
    caplog.clear()
    assert sweeps_on_test_split(SweepStore(storage, "mine")) in (1, 2)
    assert len(caplog.records) <= 1
    assert all("theirs" in record.message for record in caplog.records)


@pytest.mark.parametrize("name", ["answer.json", "warm_start.json", "trials/00001/trial.json"])
def test_a_folder_in_place_of_a_file_is_a_damaged_file(tmp_path: Path, name: str) -> None:
    new_store(tmp_path, make_sweep("own"), [baseline(), trial(1)])
    path = tmp_path / "sweeps" / "own" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    for storage in (str(tmp_path), f"file://{tmp_path}"):
        store = SweepStore(storage, "own")
        records = store.load_records()
        assert [record.number for record in records] == ([0] if "trials" in name else [0, 1])
        assert (store.load_answer(), read_known(store.folder).earlier) == (None, [])


def test_a_storage_that_goes_away_is_no_fault_of_a_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a verdict would be corrected for too few sweeps."""
    own, _ = (new_store(tmp_path, make_sweep(name), [baseline()], IDENTITY) for name in "ab")
    assert sweeps_on_test_split(own) == 2

    def goes_away(store: SweepStore) -> object:
        (tmp_path / "sweeps").rename(tmp_path / "gone")
        (tmp_path / "sweeps").touch()
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(SweepStore, "load_records", goes_away)
    with pytest.raises(NotADirectoryError):
        sweeps_on_test_split(own)


@pytest.mark.parametrize("sampler", ["tpe", "guided"])
def test_an_unreadable_sweep_that_is_named_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str
) -> None:
    store = new_store(tmp_path, make_sweep("named"), [baseline()])
    store.save_answer({})
    make_private(Path(store.trials_folder.path), monkeypatch)
    sweep = make_sweep("new", search={"sampler": sampler, "learn_from": ["named"]})
    with pytest.raises(UserError, match=r"cannot be used: Permission denied \(.*named/trials"):
        run_sweep(sweep, str(tmp_path), debug=True)
    assert sweep_names(str(tmp_path)) == ["named"]


def test_a_name_that_another_user_has_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path, make_sweep("private"), [baseline()])
    make_private(Path(store.folder.path), monkeypatch)
    with pytest.raises(UserError, match=r"Permission denied \(.*/private"):
        run_sweep(make_sweep("private"), str(tmp_path), debug=True)
