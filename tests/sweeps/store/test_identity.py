"""A sweep continues with its original data; other code and versions are reported."""

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeps.errors import UserError
from sweeps.planning.checks import use_working_folder
from sweeps.store.identity import (
    Identity,
    changes_since_start,
    identify,
    identity_files,
    read_environment,
    read_identity,
)
from tests.builders import make_sweep, new_store
from trainables.data import load_dataset
from trainables.files.storage import Folder

IDENTITY = Identity("d1", {"train": 4, "validation": 2, "test": 2}, 10, {"own.py": "c1"})


def write(folder: Folder, identity: Identity = IDENTITY) -> None:
    for name, data in identity_files(identity).items():
        folder.write(name, data)


def change_environment(folder: Folder, **packages: str | None) -> None:
    values = json.loads(folder.read("environment.json"))
    values["packages"] |= packages
    folder.write("environment.json", json.dumps(values).encode())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(str(tmp_path / "sweep"))
    write(folder)
    return folder


def test_nothing_has_changed(folder: Folder) -> None:
    before = folder.read("environment.json")
    assert changes_since_start("birds", folder, IDENTITY) == []
    assert folder.read("environment.json") == before


def test_changed_data_are_refused(folder: Folder) -> None:
    samples = {"train": 5, "validation": 2, "test": 2}
    with pytest.raises(UserError) as refused:
        changes_since_start("birds", folder, replace(IDENTITY, digest="d2", samples=samples))
    message = str(refused.value)
    assert "sweep 'birds' was started with" in message
    assert "expected 4 train, 2 validation, 2 test samples, 10 classes, digest d1" in message
    assert "found 5 train, 2 validation, 2 test samples, 10 classes, digest d2" in message
    assert "put the data back as they were, or begin a new sweep with another name" in message
    assert read_identity(folder) == IDENTITY


def test_changed_code_and_versions_are_reported(folder: Folder) -> None:
    change_environment(folder, torch="1.0", timm=None)
    now = replace(IDENTITY, modules={"own.py": "c2", "more.py": "c3"})
    lines = changes_since_start("birds", folder, now)
    shown = [line.split(" was started ")[1].split(";")[0] for line in lines]
    assert shown == [
        f"timm went from none to {version('timm')}",
        f"torch went from 1.0 to {version('torch')}",
        "more.py was added",
        "own.py has changed",
    ]
    with pytest.raises(UserError, match=r"Since then timm went .*own\.py has changed\. Its trials"):
        changes_since_start("birds", folder, replace(now, digest="d2"))


def test_the_environments_that_it_went_on_in_are_added_once_each(folder: Folder) -> None:
    change_environment(folder, torch="1.0")
    for _ in range(2):
        changes_since_start("birds", folder, IDENTITY)
    environment = read_environment(folder)
    assert environment is not None
    assert environment["packages"]["torch"] == "1.0"
    (resumed,) = environment["resumed"]
    assert resumed["packages"]["torch"] == version("torch")


def test_a_sweep_from_before_continues_with_what_there_is(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    assert changes_since_start("old", folder, IDENTITY) == []
    assert read_identity(folder) == IDENTITY
    with pytest.raises(UserError, match="the data are not those"):
        changes_since_start("old", folder, replace(IDENTITY, digest="d2"))


def test_a_damaged_identity_is_reported(folder: Folder) -> None:
    folder.write("identity.json", b"")
    with pytest.raises(UserError, match=r"identity\.json is damaged.*delete it"):
        changes_since_start("birds", folder, IDENTITY)


def test_it_exists_before_the_sweep_does(tmp_path: Path) -> None:
    store = new_store(tmp_path, make_sweep())
    assert read_identity(store.folder) is None
    other = new_store(tmp_path, make_sweep("other"), files=identity_files(IDENTITY))
    assert read_identity(other.folder) == IDENTITY


OWN = {
    "own/__init__.py": "",
    "own/losses.py": "import helper, json, torch\nfrom torch import nn\nclass L(nn.Module): ...\n",
    "own/other.py": "",
    "helper.py": "from . import nothing\nimport deeper.still\nimport main_module_that_is_not\n",
    "deeper/still.py": "import own\n",  # a namespace package
    "unused.py": "",
    "broken.py": "def (",
}


def test_the_users_code_and_what_it_imports_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in OWN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    use_working_folder()
    dataset = load_dataset("digits", seed=0)
    losses: list[Any] = ["focal", "own.losses:L", "torch.nn:MultiMarginLoss", "broken:L", "gone:L"]
    identity = identify(make_sweep(losses=losses).named, dataset)
    assert sorted(identity.modules) == [
        "broken.py",
        "deeper/still.py",
        "helper.py",
        "own/__init__.py",
        "own/losses.py",
        "own/other.py",
    ]
    assert identity.digest == dataset.digest()
    assert identity.samples["test"] == len(dataset.test)
    (tmp_path / "helper.py").write_text("changed = 1")
    again = identify(make_sweep(losses=losses).named, dataset)
    assert {n for n in again.modules if again.modules[n] != identity.modules[n]} == {"helper.py"}
    assert identify(make_sweep().named, dataset).modules == {}


def test_other_samples_make_other_data() -> None:
    digests = {
        load_dataset("digits", seed=seed, **options).digest()
        for seed in (0, 1)
        for options in ({}, {"train_samples": 100})
    }
    assert len(digests) == 4
    assert np.unique([len(digest) for digest in digests]) == [16]
