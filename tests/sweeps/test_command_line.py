"""The command as users call it: exit codes, one message, nothing left behind, the MLflow UI."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import typer
from sklearn.datasets import load_digits

from sweeps.cli import app
from sweeps.sweep_file.loading import FIRST_LINE
from sweeps.tracking.address import tracking_uri
from tests.harness.command import calsweep

MINIMAL = "name: small\ndataset: digits\nmodel: small_cnn\nlosses: [focal]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "sweep.yaml", "--set", "training.epoch=3"), "did you mean 'epochs'"),
        (("run", "sweep.yaml", "--set", "losses=[focl]"), "did you mean 'focal'"),
        (
            ("run", "sweep.yaml", "--debug", "--set", "tracking.uri=http://127.0.0.1:9"),
            "does not answer",
        ),
        (
            ("run", "sweep.yaml", "--debug", "--set", "tracking.uri=ftp://x"),
            "tracking.uri = 'ftp://x'",
        ),
        (
            ("run", "sweep.yaml", "--storage", "/dev/null/x"),
            "storage = '/dev/null/x' cannot be used",
        ),
        (("run", "sweep.yaml", "--set", "scaling.cpus_per_worker=999"), "this machine has"),
        (("run", "sweep.yaml", "--address", "127.0.0.1:9"), "no Ray cluster answers"),
        (("run", "nothing.yaml"), "no such file"),
        (("check", "sweep.yaml", "--set", "search.objective=val_foo"), "search.objective"),
        (("check", "sweep.yaml", "--set", "search.objective=val_acc"), "did you mean 'val_error'"),
        (
            ("check", "sweep.yaml", "--set", "search.trials=3", "training.lr=0.1"),
            "write --set before each value: --set training.lr=0.1",
        ),
        (("delete", "nope"), "no sweep named 'nope'"),
        (("check", "sweep.yaml", "--compare", "focl"), "did you mean 'focal'"),
        (("check", "sweep.yaml", "--set", "dataset.val_samples=9"), "did you mean 'validation'"),
        (("check", "sweep.yaml", "--set", "search.learn_from=[x]"), "no sweep named 'x' in"),
        (("resume", "small"), "no sweep named 'small'"),
        (("report", "small"), "no sweep named 'small'"),
        (("best",), "has no finished sweep"),
        (("ui",), "has no runs yet"),
        (("ui", "--port", "99999"), "port"),
        (("rum", "quickstart"), "No such command"),
        (("run",), "Missing argument"),
    ],
)
def test_bad_input_is_reported_in_one_message_with_exit_code_2(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "sweep.yaml").write_text(MINIMAL)
    done = calsweep(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


def test_without_a_command_the_help_is_printed_as_it_is(tmp_path: Path) -> None:
    alone, asked = calsweep(tmp_path), calsweep(tmp_path, "--help")
    assert (alone.returncode, asked.returncode) == (2, 0)
    assert alone.stderr.startswith("Usage: ")
    assert alone.stderr.strip() == asked.stdout.strip()


@pytest.mark.parametrize("key", ["losses=['broken:X']", "dataset=broken:x", "model=broken:x"])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def x(:\n", "invalid syntax (broken.py, line 1)"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_a_users_module_that_is_broken_is_reported_so(
    tmp_path: Path, key: str, source: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text(source)
    done = calsweep(tmp_path, "check", "quickstart", "--set", key)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    done = calsweep(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"calsweep {version('calsweep')}\n")


def test_check_prints_the_plan(tmp_path: Path) -> None:
    sets = ("search.sampler=tpe", "search.trials=50")
    done = calsweep(tmp_path, "check", "quickstart", *(f"--set={each}" for each in sets))
    assert done.returncode == 0
    assert re.search(r"50: the baseline, \d+ published, \d+ searched", done.stdout)
    assert "poor trials stop at 1, 3, 9 by val_nll" in done.stdout
    assert "0.5 … 3.5" in done.stdout


def test_no_library_prints_when_the_process_ends(tmp_path: Path) -> None:
    """In a process of its own, because others end without Python's last steps."""
    command = [sys.executable, "-m", "sweeps.cli", "check", "quickstart"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("command", "names"),
    [("losses", ["r_aurc", "cals_alm"]), ("datasets", ["digits"]), ("models", ["resnet50_cifar"])],
)
def test_lists_of_components(tmp_path: Path, command: str, names: list[str]) -> None:
    done = calsweep(tmp_path, command)
    assert done.returncode == 0
    assert all(name in done.stdout for name in names)


LEARNING = """
import torch
import trainables.metrics, trainables.engine.training
from trainables.contract.config import TrainingConfig
from trainables.engine.optimizers import make_optimizer
from trainables.losses import available_losses, make_loss

for name in available_losses():
    make_loss(name, 3)
net = torch.nn.Linear(3, 2)
optimizer = make_optimizer(net, make_loss("cross_entropy", 2), TrainingConfig())
net(torch.ones(1, 3)).sum().backward()
optimizer.step()  # would import the compiler, like the next line
optimizer.load_state_dict(optimizer.state_dict())
"""


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            LEARNING,
            {"ray", "mlflow", "torchvision", "sklearn", "optuna", "scipy.stats", "torch._dynamo"},
        ),
        (
            "from trainables.models import *; [model_options(name) for name in available_models()]",
            {"ray", "mlflow", "timm", "torchvision", "optuna"},
        ),
        ("import search_spaces", {"ray", "mlflow", "torch"}),
        ("import sweeps.cli", {"ray", "mlflow", "torch", "pydantic"}),
    ],
)
def test_imports_load_only_what_they_need(statement: str, absent: set[str]) -> None:
    assert absent & imported_by(statement) == set()


def imported_by(code: str, folder: Path | None = None) -> set[str]:
    """The modules that are imported after running code in a separate process."""
    code += "\nimport sys, json; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


SMALL = ("training.epochs=2", "search.trials=3", "selection.seeds=0", "losses=[focal]")


def run_small(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    values = (*SMALL, "dataset.train_samples=300", "scaling.max_concurrent=1")
    sets = (x for s in values for x in ("--set", s))
    done = calsweep(folder, "run", "quickstart", *sets, *options)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small sweep was run with the default storage, without Ray."""
    folder = tmp_path_factory.mktemp("finished")
    done = run_small(folder, "--debug", "--set", "tracking.register_model=false")
    for part in ("best setting", " selected", "calsweep ui", "calsweep best", "calsweep report"):
        assert part in done.stdout
    assert "3 trials" in done.stderr or "/3" in done.stderr
    return folder


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same on Ray, with the selected setting in the registry; only slow tests use it."""
    folder = tmp_path_factory.mktemp("registered")
    done = run_small(folder)
    assert "best setting" in done.stdout
    # Two epochs are worse than logistic regression, of which the result warns.
    assert "registered: models:/calsweep-digits@challenger is version 1; there is no" in done.stderr
    moved = calsweep(folder, "promote", "quickstart")
    assert moved.stdout == "promoted: models:/calsweep-digits@champion is version 1\n"
    return folder


@pytest.mark.slow
def test_the_recommended_model_is_in_the_registry(
    registered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    uri = tracking_uri(str(registered / "calsweep-store"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    model = mlflow.pyfunc.load_model("models:/calsweep-digits@champion")
    images, digits = load_digits(return_X_y=True)
    pixels = (images * 255 / 16).round().astype(np.uint8)
    probabilities = model.predict(pixels.reshape(-1, 1, 8, 8))
    assert list(probabilities.columns) == [str(each) for each in range(10)]
    assert probabilities.sum(axis=1).to_numpy() == pytest.approx(np.ones(len(digits)), abs=1e-5)
    assert (probabilities.to_numpy().argmax(axis=1) == digits).mean() > 0.5  # trained for a moment
    assert model.metadata.signature is not None


def test_the_best_setting_as_table_json_and_yaml(finished: Path) -> None:
    assert "small_cnn" in calsweep(finished, "best").stdout
    (entry,) = json.loads(calsweep(finished, "best", "--format", "json").stdout)["best"]
    assert isinstance(entry["run_id"], str)
    wanted = {"dataset", "model", "loss", "hyperparameters", "seed", "run_id", "temperature"}
    assert wanted <= entry.keys()
    assert {"error", "ece", "nll"} <= entry["val"].keys() & entry["test"].keys()
    assert calsweep(finished, "best", "--dataset", "other").returncode == 2
    yaml = calsweep(finished, "best", "--format", "yaml")
    assert yaml.stdout.startswith(FIRST_LINE)
    (finished / "best.yaml").write_text(yaml.stdout)
    check = calsweep(finished, "check", "best.yaml")
    assert check.returncode == 0, yaml.stdout + check.stderr
    assert "quickstart-best" in check.stdout


@pytest.mark.parametrize("command", ["best", "best --format yaml", "show quickstart", "list"])
def test_reading_commands_import_nothing_slow(finished: Path, command: str) -> None:
    code = f"from sweeps.cli import app; app({command.split()!r}, standalone_mode=False)"
    slow = {"mlflow", "ray", "torch", "numpy", "scipy", "optuna", "matplotlib", "pyarrow"}
    assert slow & imported_by(code, finished) == set()


def test_the_report_is_written(finished: Path) -> None:
    done = calsweep(finished, "report", "quickstart")
    assert done.returncode == 0, done.stderr
    assert "Selected: " in (finished / "quickstart-report.html").read_text()


def test_a_second_run_of_the_same_name_is_refused(finished: Path) -> None:
    done = calsweep(finished, "run", "quickstart")
    assert done.returncode == 2
    assert "calsweep resume quickstart" in done.stderr


def test_help_lists_every_command_once_in_one_line(tmp_path: Path) -> None:
    commands = typer.main.get_group(app).commands
    shown = {name for name, command in commands.items() if not command.hidden}
    _, *lines = calsweep(tmp_path, "--help", COLUMNS="80").stdout.splitlines()  # after "Usage"
    words = [line.split()[0] for line in lines if line.startswith("  ") and line.strip()]
    assert sorted(word for word in words if word in shown) == sorted(shown)
    assert not [line for line in lines if line.endswith("...") or len(line) > 80]


ENDING = """
import atexit, sys
from sweeps.cli import run

class Freed:
    def __del__(self):
        print("freed")

kept = Freed()
sys.argv[1:] = ["init", "--data", "digits", "there.yaml"]
import sweeps.drafting.writing as writing
first = writing.write_new_sweep_file

def write(*arguments):
    atexit.register(print, "handler called")
    return first(*arguments)

writing.write_new_sweep_file = write
run()
"""


@pytest.mark.parametrize(("there", "code"), [(False, 0), (True, 2)])
def test_the_process_ends_without_freeing_each_object(
    tmp_path: Path, there: bool, code: int
) -> None:
    """But what is to be done at the end is done, and the exit code is that of the command."""
    if there:
        (tmp_path / "there.yaml").touch()
    done = subprocess.run(
        [sys.executable, "-c", ENDING], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.endswith("handler called\n")
    assert ("already exists" in done.stderr) == there
