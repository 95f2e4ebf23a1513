"""Sweeps handed to a real Ray cluster as jobs: a head that asks for a token."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.ray_cluster import RayCluster, free_port
from sweeps.errors import UserError
from sweeps.loading import dump_sweep, parse_sweep
from sweeps.shipping import SWEEP_FILE, check_reachable, stage
from sweeps.store import SweepStore

CALSWEEP = str(Path(sys.executable).with_name("calsweep"))
TOKEN = "0123456789abcdef0123456789abcdef"
OWN_LOSS = """
import time
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

class Slow(CalibrationLoss):
    '''Cross-entropy that takes its time, so that there is something to stop.'''
    looks_across_batch = False
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.alpha = alpha
    def on_epoch_end(self):
        time.sleep(0.4)
    def compute(self, logits, targets, indices, features):
        return cross_entropy(logits, targets) * self.alpha
"""
TRIALS = 16
SWEEP = {
    "name": "remote",
    "dataset": {"name": "digits", "train_samples": 200},
    "model": {"name": "small_cnn", "width": 4},
    "losses": [
        {"name": "own.slow:Slow", "space": {"alpha": {"low": 0.5, "high": 2.0}}},
    ],
    "training": {"epochs": 4, "batch_size": 64, "lr": 0.05},
    "search": {"trials": TRIALS},
    "selection": {"finalists": 0},
    "scheduler": {"name": "none"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    cluster = RayCluster(head_cpus=2, token=TOKEN)
    yield cluster
    cluster.stop()
    shutil.rmtree(cluster.temporary, ignore_errors=True)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, with more in it than may be sent."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "own").mkdir()
    (folder / "own/__init__.py").touch()
    (folder / "own/slow.py").write_text(OWN_LOSS)
    (folder / "sweep.yaml").write_text(dump_sweep(parse_sweep(SWEEP)))
    for name in (".git/config", ".env", "key.pem", "data/train.parquet", ".secret/key.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("secret")
    (folder / "venv/lib").mkdir(parents=True)
    (folder / "venv/pyvenv.cfg").touch()
    (folder / "venv/lib/package.py").touch()
    return folder


def calsweep(
    folder: Path, *arguments: str, token: str | None = TOKEN
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment["HOME"] = str(folder)  # whose .ray/auth_token there is not
    if token:
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    return subprocess.run(
        [CALSWEEP, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_sweep_is_submitted_stopped_and_resumed(cluster: RayCluster, workplace: Path) -> None:
    store = str(workplace / "store")
    place = ("--address", cluster.url, "--storage", store)
    sent = calsweep(workplace, "submit", "sweep.yaml", *place)
    assert sent.returncode == 0, sent.stderr
    lines = sent.stdout.splitlines()
    assert lines[0] == "sent: the sweep and own/__init__.py, own/slow.py"
    job = lines[-1]
    assert job.startswith("remote-")

    sweep = SweepStore(store, "remote")
    until = time.monotonic() + 120
    while not any(record.state == "finished" for record in sweep.load_records()):
        assert time.monotonic() < until, calsweep(workplace, "logs", job, *place[:2]).stdout
        time.sleep(0.5)
    running = calsweep(workplace, "status", "remote", *place[:2])
    assert "RUNNING" in running.stdout
    assert "trials · " in running.stdout

    stopped = calsweep(workplace, "stop", job, *place[:2])
    assert f"{job}: STOPPED" in stopped.stdout, stopped.stderr
    before = {r.number: r.ended for r in sweep.load_records() if r.state == "finished"}
    assert 0 < len(before) < TRIALS

    again = calsweep(workplace, "resume", "remote", *place)
    assert again.returncode == 0, again.stderr
    followed = calsweep(workplace, "logs", again.stdout.splitlines()[-1], "--follow", *place[:2])
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "Chosen:" in followed.stdout
    records = sweep.load_records()
    assert [record.state for record in records] == ["finished"] * TRIALS
    assert {number: records[number].ended for number in before} == before

    listed = calsweep(workplace, "status", *place[:2]).stdout
    assert "SUCCEEDED" in listed
    assert "STOPPED" in listed
    assert calsweep(workplace, "best", "--storage", store).returncode == 0


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, r"asks for a token: no token; set RAY_AUTH_MODE=token and the token in"),
        ("f" * 32, r"the token is not the cluster's; set the token in RAY_AUTH_TOKEN"),
    ],
)
def test_a_token_that_is_missing_or_wrong(
    cluster: RayCluster, workplace: Path, token: str | None, message: str
) -> None:
    refused = calsweep(workplace, "status", "--address", cluster.url, token=token)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_job_that_is_not_there(cluster: RayCluster, workplace: Path) -> None:
    refused = calsweep(workplace, "logs", "remot", "--address", cluster.url)
    assert refused.returncode == 2
    assert "no job 'remot'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--address", "http://127.0.0.1:{port}"], "no Ray dashboard answers there"),
        (["--address", "ftp://x"], "--address = 'ftp://x' is not allowed; allowed: the URL"),
        (["--address", "http://x:y"], "is not allowed; allowed: the URL"),
        (["--set", "dataset.nam=x"], "dataset"),
        (["--storage", "relative"], "storage = 'relative' is a folder of this machine"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_sent(
    workplace: Path, arguments: list[str], message: str
) -> None:
    given = [argument.format(port=free_port()) for argument in arguments]
    storage = [] if "--storage" in given else ["--storage", str(workplace / "none")]
    refused = calsweep(workplace, "submit", "sweep.yaml", *storage, *given)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_only_the_sweep_and_modules_are_sent(workplace: Path, tmp_path: Path) -> None:
    stage(workplace, tmp_path, parse_sweep(SWEEP))
    sent = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert sent == {"own/__init__.py", "own/slow.py", SWEEP_FILE}


def test_too_much_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from/large.py").write_bytes(b"#" * (11 * 2**20))
    with pytest.raises(UserError, match="more than 10 MiB"):
        stage(tmp_path / "from", tmp_path, None)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"dataset": {"name": "parquet", "train": "data/train.parquet", "test": "/d/t.parquet"}},
            r"dataset\.train = 'data/train\.parquet' is relative to this folder",
        ),
        ({"tracking": {"uri": "http://me:secret@mlflow:5000"}}, r"tracking\.uri holds a password"),
    ],
)
def test_what_another_machine_would_not_know(sections: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        check_reachable("s3://bucket/store", parse_sweep({**SWEEP, **sections}))
    assert "secret" not in str(refused.value)
