"""Sweeps share encoders if and only if they would train the same ones."""

from pathlib import Path
from typing import Any

import pytest

from sweeps.store import encoders
from sweeps.store.encoders import encoder_setup
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep, new_store
from trainables.data import load_dataset
from trainables.data.core.base import Dataset

LOSS = "import torch\nclass Mine(torch.nn.Module): pass\n"


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0, train_samples=300)


def two_stages(name: str, **sections: Any) -> SweepFile:
    known = {"encoder": {"loss": "supcon", "training": {"epochs": 1}}}
    return make_sweep(name, **{**known, **sections})


def place(folder: Path, digits: Dataset, sweep: SweepFile) -> str:
    setup = encoder_setup(sweep, new_store(folder, sweep), digits)
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
        encoder_setup(make_sweep("plain"), new_store(tmp_path, make_sweep("plain")), digits) is None
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
    first = encoder_setup(sweep, store, digits)
    now = encoders.describe_environment()
    newer = {**now, "packages": {**now["packages"], "torch": "99.0"}}
    monkeypatch.setattr(encoders, "describe_environment", lambda: newer)
    assert encoder_setup(sweep, store, digits) == first
    assert first is not None
    assert place(tmp_path, digits, two_stages("new")) != first.uri
    store.folder.write("encoders", b"")  # damaged
    again = encoder_setup(sweep, store, digits)
    assert again is not None and again.uri != first.uri
