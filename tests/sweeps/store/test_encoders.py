"""Sweeps share encoders if and only if they would train the same ones."""

import errno
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sweeps.search.plan import Plan
from sweeps.store import encoders
from sweeps.store.encoders import encoder_setup, trained_encoders, usable_encoders
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep, new_store
from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.files.storage import Folder

LOSS = "import torch\nclass Mine(torch.nn.Module): pass\n"


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0, train_samples=300)


def two_stages(name: str, **sections: Any) -> SweepFile:
    known = {"encoder": {"loss": "supcon", "training": {"epochs": 1}}}
    return make_sweep(name, **{**known, **sections})


def place(folder: Path, digits: Dataset, sweep: SweepFile) -> str:
    setup = encoder_setup(Plan(sweep), new_store(folder, sweep), digits)
    assert setup is not None
    return setup.uri


def test_sweeps_that_differ_in_the_heads_only_share_an_encoder(
    tmp_path: Path, digits: Dataset
) -> None:
    first = place(tmp_path, digits, two_stages("first"))
    assert first.startswith(f"{tmp_path}/encoders/")
    assert place(tmp_path, digits, two_stages("second", losses=["mdca"])) == first
    several = two_stages("several", scaling={"num_workers": 2})
    assert place(tmp_path, digits, several) != first
    other = load_dataset("digits", seed=1, train_samples=300)
    assert place(tmp_path, other, two_stages("other")) != first
    assert (
        encoder_setup(Plan(make_sweep("plain")), new_store(tmp_path, make_sweep("plain")), digits)
        is None
    )


def test_an_encoder_of_other_code_is_another_one(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "encoder_loss.py").write_text(LOSS)
    (tmp_path / "head_loss.py").write_text(LOSS)
    values = {
        "encoder": {"loss": "encoder_loss:Mine", "training": {"epochs": 1}},
        "losses": ["head_loss:Mine"],
    }
    first = place(tmp_path, digits, two_stages("first", **values))
    (tmp_path / "head_loss.py").write_text(LOSS + "# of another head\n")
    assert place(tmp_path, digits, two_stages("second", **values)) == first
    (tmp_path / "encoder_loss.py").write_text(LOSS + "# of another encoder\n")
    assert place(tmp_path, digits, two_stages("third", **values)) != first


def test_a_sweep_keeps_its_encoder_when_versions_change(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = two_stages("kept")
    store = new_store(tmp_path, sweep)
    first = encoder_setup(Plan(sweep), store, digits)
    newer = {**encoders.versions(), "torch": "99.0"}
    monkeypatch.setattr(encoders, "versions", lambda: newer)
    assert encoder_setup(Plan(sweep), store, digits) == first
    assert first is not None
    assert place(tmp_path, digits, two_stages("new")) != first.uri
    store.folder.write("encoders", b"")  # damaged
    again = encoder_setup(Plan(sweep), store, digits)
    assert again is not None and again.uri != first.uri


def damage(path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "a file":
        path.parent.mkdir()
        path.write_text("")
    elif how == "an index that is a folder":
        (path / "seed_0" / "encoder.json").mkdir(parents=True)
    else:  # another user's, which root would not notice
        act = how.removeprefix("not allowed to ")
        whole = getattr(Folder, act)

        def refuse(folder: Folder, *arguments: Any) -> Any:
            if Path(folder.path).is_relative_to(path):
                raise PermissionError(errno.EACCES, "Permission denied", folder.path)
            return whole(folder, *arguments)

        monkeypatch.setattr(Folder, act, refuse)


@pytest.mark.parametrize(
    "how", ["a file", "an index that is a folder", "not allowed to read", "not allowed to write"]
)
def test_a_sweep_that_cannot_use_the_shared_encoders_has_its_own(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    notices: list[str] = []
    sweep = two_stages("mine")
    store = new_store(tmp_path, sweep)
    shared = encoder_setup(Plan(sweep), store, digits)
    assert shared is not None
    with monkeypatch.context() as patch:
        damage(Path(shared.uri), how, patch)
        own = usable_encoders(Plan(sweep), store, digits, notices.append)
    assert own is not None and own.uri == f"{store.folder.uri}/own_encoders"
    assert len(notices) == 1 and shared.uri in notices[0]
    assert trained_encoders(Plan(sweep), own) == frozenset()
    for again in (encoder_setup, partial(usable_encoders, notice=notices.append)):
        assert again(Plan(sweep), store, digits) == own  # also once the other can be used
    assert len(notices) == 1


def test_a_storage_that_does_not_answer_is_waited_for(
    tmp_path: Path, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = two_stages("mine")
    store = new_store(tmp_path, sweep)
    before = usable_encoders(Plan(sweep), store, digits, pytest.fail)
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", lambda *_: (_ for _ in ()).throw(OSError(5, "away")))
        with pytest.raises(OSError, match="away"):
            usable_encoders(Plan(sweep), store, digits, pytest.fail)
    assert usable_encoders(Plan(sweep), store, digits, pytest.fail) == before
