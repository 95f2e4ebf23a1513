"""The batch script of `calsweep init --slurm`, and a sweep that it runs in a real Slurm."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.drafting.writing import write_batch_script
from sweeps.errors import UserError
from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from tests.harness.command import calsweep
from tests.harness.slurm import Slurm, can_run_slurm, wait

EPOCHS, TRIALS = 3, 8
HELD_LOSS = """
import time
from pathlib import Path
import torch
from torch.nn.functional import cross_entropy
from trainables.losses import CalibrationLoss

HERE = Path({folder!r})

class Held(CalibrationLoss):
    looks_across_batch = False
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.alpha = alpha
        self.register_buffer("epoch", torch.zeros((), dtype=int))
    def on_epoch_end(self):
        while (HERE / "hold").exists() and len((HERE / "epochs").read_text().splitlines()) >= 6:
            time.sleep(0.2)  # two trials have ended; the others wait for the wall time
        self.epoch += 1
        with open(HERE / "epochs", "a") as stream:
            print(self.alpha, int(self.epoch), file=stream)
    def compute(self, logits, targets, indices, features):
        return cross_entropy(logits, targets) * self.alpha
"""
SWEEP = f"""
name: birds
dataset: {{name: digits, train_samples: 200}}
model: {{name: small_cnn, width: 4}}
losses: [{{name: "held_loss:Held", space: {{alpha: {{low: 0.5, high: 2}}}}}}]
training: {{epochs: {EPOCHS}, batch_size: 64}}
search: {{trials: {TRIALS}, sampler: random}}
scheduler: {{name: none}}
selection: {{finalists: 0}}
"""


def test_the_script_is_written_beside_the_sweep_file(tmp_path: Path) -> None:
    assert calsweep(tmp_path, "init", "birds.yaml", "--data", "digits", "--slurm").returncode == 0
    script = (tmp_path / "birds.sbatch").read_text()
    assert "calsweep run birds.yaml --or-resume" in script
    assert "@" not in script.replace("USR1@300", "").replace('"$@"', "")
    checked = subprocess.run(["bash", "-n", tmp_path / "birds.sbatch"], check=False)
    assert checked.returncode == 0
    (tmp_path / "birds.sbatch").unlink()
    again = calsweep(tmp_path, "init", "birds.yaml", "--slurm")  # the file exists already
    assert "written: birds.sbatch" in again.stdout
    with pytest.raises(UserError, match="already exists"):
        write_batch_script(str(tmp_path / "birds.yaml"))


@pytest.fixture
def slurm() -> Iterator[Slurm]:
    if not can_run_slurm():
        pytest.skip("needs root, and Debian's slurm-wlm and munge")
    folder = Path(tempfile.mkdtemp(prefix="sl"))  # short, because Ray's sockets are below it
    slurm = Slurm(folder)
    yield slurm
    slurm.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slurm
@pytest.mark.timeout(2400)
def test_a_sweep_continues_after_the_wall_time(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "held_loss.py").write_text(HELD_LOSS.format(folder=str(tmp_path)))
    (tmp_path / "birds.yaml").write_text(SWEEP)
    (tmp_path / "epochs").touch()
    (tmp_path / "hold").touch()
    assert calsweep(tmp_path, "init", "birds.yaml", "--slurm").returncode == 0
    store = SweepStore(str(tmp_path / "calsweep-store"), "birds")
    script = tmp_path / "birds.sbatch"
    lines = {
        "#SBATCH --gpus-per-node=8": "",
        "#SBATCH --time=08:00:00": "#SBATCH --time=00:07:00",
        "#SBATCH --signal=B:USR1@300": "#SBATCH --signal=B:USR1@150",
        "source .venv/bin/activate": "",
    }
    text = script.read_text()
    for line, instead in lines.items():
        assert line in text
        text = text.replace(line, instead)
    script.write_text(text)
    with tempfile.TemporaryDirectory(prefix="sr") as temporary:
        variables = {
            "HOME": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "RAY_TMPDIR": temporary,
            "RAY_worker_niceness": "0",
            "RAY_agent_register_timeout_ms": "300000",
            "OMP_NUM_THREADS": "1",
        }
        job = slurm.submit("birds.sbatch", tmp_path, variables)
        log = tmp_path / f"birds-{job}.log"

        def requeued() -> int:
            return log.read_text().count("requeued, to resume") if log.exists() else 0

        def finished() -> dict[int, TrialRecord]:
            slurm.ends(job)  # and so begins again at once
            return {r.number: r for r in store.load_records() if r.state == "finished"}

        try:
            wait(lambda: bool(finished()), 900)  # a busy machine may need a second job for that
            stops = requeued()
            wait(lambda: not slurm.ends(job) and requeued() > stops, 600)
            before = finished()
            assert 0 < len(before) < TRIALS
            (tmp_path / "hold").unlink()
            wait(lambda: slurm.ends(job), 900)
        finally:
            print(log.read_text() if log.exists() else "no log")
    assert slurm.state(job) == "COMPLETED"
    assert "interrupted; `calsweep resume birds" in log.read_text()  # it ended normally
    records = store.load_records()
    assert [record.state for record in records] == ["finished"] * TRIALS
    assert all(record.epochs == EPOCHS for record in records)
    assert all(records[number] == record for number, record in before.items())
    assert store.load_answer() is not None
    trained = (tmp_path / "epochs").read_text().splitlines()
    assert len(trained) - len(set(trained)) <= 2 * requeued()  # epochs that signals interrupted
    assert not list(tmp_path.glob(".calsweep-*.pid"))
