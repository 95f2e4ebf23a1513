"""Runs the examples in docs/own_losses.md like a reader of the page."""

import json
import math
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import ray

from sweeps.errors import UserError
from sweeps.planning.checks import check_sweep
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from tests.harness.command import calsweep
from trainables.contract.config import TrainingConfig, TrialSetup
from trainables.contract.messages import Failed, TrialConfig, from_tune
from trainables.contract.setting import Setting
from trainables.data import load_dataset
from trainables.wrappers.one_process import TuneTrial

PAGE = Path(__file__).parents[2] / "docs/own_losses.md"
OWN = "overconfidence:Overconfidence"
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


def blocks() -> dict[str, str]:
    """The page's files: code blocks whose first line is a comment with the file's name."""
    found = re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return dict(found)


def table_under(heading: str) -> dict[str, str]:
    """First column → the text in backticks in the second, of the tables under a heading."""
    text = PAGE.read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| ([^|]+?) \| `([^`]+)`.* \|$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    made = tmp_path_factory.mktemp("reader")
    for name, text in blocks().items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
def installed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package of the page is installed."""
    package, target = folder / "honest_losses", tmp_path_factory.mktemp("installed")
    (package / "__init__.py").touch()
    (package / "overconfidence.py").write_bytes((folder / "overconfidence.py").read_bytes())
    wheel = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()[-1]
    with zipfile.ZipFile(target / wheel) as archive:
        archive.extractall(target)  # installs a wheel of pure Python
    return target


@pytest.mark.slow
def test_a_sweep_over_a_loss_beside_the_sweep_file(folder: Path) -> None:
    done = calsweep(folder, "run", "own.yaml", "--debug")
    assert done.returncode == 0, done.stderr
    records = SweepStore(str(folder / "calsweep-store"), "own").load_records()
    own = [record for record in records if record.loss == OWN]
    assert len(own) >= 3
    for record in own:
        assert record.state in ("finished", "stopped"), record.reason
        assert 0.1 <= record.hyperparameters["weight"] <= 10
        assert record.hyperparameters["ramp_epochs"] in (1, 2, 3)
        assert isinstance(record.hyperparameters["ramp_epochs"], int)


def test_check_shows_the_search_space_of_the_loss(folder: Path) -> None:
    done = calsweep(folder, "check", "own.yaml")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"{OWN} +weight +0\.1 … 10 \(log\)", done.stdout)
    assert re.search(r"ramp_epochs +1 … 3 ", done.stdout)


def test_an_installed_package_brings_losses_and_spaces(folder: Path, installed: Path) -> None:
    (installed / "bare-1.dist-info").mkdir()
    (installed / "bare-1.dist-info/METADATA").write_text("Name: bare\nVersion: 1\n")
    (installed / "bare-1.dist-info/entry_points.txt").write_text(
        "[calsweep.losses]\n"
        "without_space = honest_losses.overconfidence:Overconfidence\n"
        "broken = nowhere:Loss\n"
    )
    listed = calsweep(folder, "losses", COLUMNS="300", PYTHONPATH=str(installed))
    assert listed.returncode == 0, listed.stderr
    assert re.search(
        r"overconfidence +weight 1, ramp_epochs 2 +weight 0\.1 … 10 \(log\), ramp_epochs 1 … 20"
        r" +our own",
        listed.stdout,
    )
    assert re.search(r"without_space +weight 1, ramp_epochs 2 +no range", listed.stdout)
    assert re.search(r"broken .*No module named 'nowhere'", listed.stdout)
    assert "focal" in listed.stdout
    without = {"name": "without_space", "space": {"ramp_epochs": {"low": 2, "high": 5}}}
    losses = ["overconfidence", without]
    checked = calsweep(
        folder,
        "check",
        "installed.yaml",
        "--set",
        f"losses={json.dumps(losses)}",
        COLUMNS="300",
        PYTHONPATH=str(installed),
    )
    assert checked.returncode == 0, checked.stderr
    assert re.search(r"overconfidence +weight +0\.1 … 10 \(log\) +1\b", checked.stdout)
    assert re.search(r"without_space +ramp_epochs +2 … 5 +1\b", checked.stdout)


REFUSED = {
    "no such module": {"name": "nowhere:Loss"},
    "no such class": {"name": "overconfidence:Loss"},
    "not a loss": {"name": "math:sqrt"},
    "an unknown hyperparameter": {"name": OWN, "hyperparameters": {"wait": 1.0}},
    "a range outside the allowed values": {
        "name": OWN,
        "space": {"weight": {"low": -1, "high": 1}},
    },
    "a fractional range for an integer": {
        "name": OWN,
        "space": {"ramp_epochs": {"low": 1.5, "high": 3}},
    },
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_loss_that_cannot_be_made_is_refused_as_the_page_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    tree = {"name": "a", "dataset": "digits", "model": "small_cnn", "losses": [REFUSED[fault]]}
    with pytest.raises(UserError) as caught:
        check_sweep(parse_sweep(tree))
    assert str(caught.value) == table_under("Error messages")[fault]


FAULTY = {
    "`compute` raises": "return {}['key']",
    "the value is NaN or infinite": "return logits.mean() * float('nan')",
    "one value per sample": "return logits.mean(dim=1)",
    "a number instead of a tensor": "return logits.mean().item()",
    "no gradient": "return logits.mean().detach()",
    "no `compute`": None,
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_loss_that_fails_in_training_is_reported_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    module = f"faulty{list(FAULTY).index(fault)}"
    compute = f"def compute(self, logits, targets, indices, features): {FAULTY[fault]}"
    (tmp_path / f"{module}.py").write_text(
        "from trainables.losses import CalibrationLoss\n"
        f"class Overconfidence(CalibrationLoss):\n    {compute if FAULTY[fault] else 'pass'}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    setup = TrialSetup(
        model="small_cnn",
        model_options={"width": 4},
        training=TrainingConfig(epochs=1, batch_size=60),
        trials_uri=str(tmp_path),
        outcome_epochs=(1,),
    )
    # Otherwise Ray would start.
    monkeypatch.setattr(ray, "get_gpu_ids", list)
    monkeypatch.setattr(TuneTrial, "_asked", math.inf)
    trial = TuneTrial.__new__(TuneTrial)  # like its actor, but without Ray
    trial.setup(
        TrialConfig(0, "search", Setting(f"{module}:Overconfidence", {}), seed=0).to_tune(),
        dataset=load_dataset("digits", seed=0, train_samples=120),
        trial_setup=setup,
    )
    report = from_tune(trial.step())
    assert isinstance(report, Failed)
    assert report.reason == table_under("Error messages")[fault]
