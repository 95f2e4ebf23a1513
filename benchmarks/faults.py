"""What a sweep loses when parts of a cluster die: faults at random moments, again and again.

    python -m benchmarks.faults [--tries 20] [--seed 0] [FAULT ...]

A head and two nodes run on this machine as separate Ray processes (``ray start``), the driver as
a job of that cluster. Each try runs a whole sweep, in the middle of which the fault happens; where
it ends the driver, ``calsweep resume`` follows. Prints a table: tries, trials, lost trials, epochs
that were trained twice, and seconds until what was interrupted had its next epoch done.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.ray_cluster import Node, RayCluster, free_port
from sweeps.errors import UserError
from sweeps.jobs import find_job
from sweeps.loading import dump_sweep, parse_sweep
from sweeps.records import TrialRecord
from sweeps.store import SweepStore
from sweeps.tracking.client import check_answers, tracking_uri
from sweeps.tracking.reader import tracked_sweeps

TRIALS, EPOCHS = 10, 6
CALSWEEP = str(Path(sys.executable).with_name("calsweep"))
_TIMEOUT_SECONDS = 300
_OWN_LOSS = '''
import os, time
import torch
from torch.nn.functional import cross_entropy
from trainables.distributed import rank
from trainables.losses import CalibrationLoss

class Logged(CalibrationLoss):
    """Writes down each epoch: when, by which process, of which trial (each has its own alpha)."""
    looks_across_batch = False
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.alpha = alpha
        self.register_buffer("epoch", torch.zeros((), dtype=int))
    def on_epoch_end(self):
        time.sleep(0.3)
        self.epoch += 1
        if rank() == 0:
            with open({log!r}, "a") as stream:
                print(time.time(), os.getpid(), self.alpha, int(self.epoch), file=stream)
    def compute(self, logits, targets, indices, features):
        return cross_entropy(logits, targets) * self.alpha
'''


@dataclass(frozen=True)
class Epoch:
    """An epoch that was trained.

    Attributes:
        when: Seconds since the epoch.
        pid: Of the process.
        trial: What tells the trials apart.
        number: From 1.
    """

    when: float
    pid: int
    trial: str
    number: int


@dataclass
class Outcome:
    """What a fault did.

    Attributes:
        trials: Trials of the sweep.
        lost: Trials that did not end as they should, or that were run again though finished.
        repeated: Epochs that were trained more than once.
        seconds: Until what was interrupted had its next epoch done.
    """

    trials: int = 0
    lost: int = 0
    repeated: int = 0
    seconds: list[float] = field(default_factory=list)


class MlflowServer:
    """``mlflow server`` on SQLite, that may go and come back.

    Args:
        folder: For its files.
    """

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._folder = folder
        self.uri = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                *("--backend-store-uri", f"sqlite:///{self._folder}/mlflow.db"),
                *("--artifacts-destination", str(self._folder / "artifacts")),
                *("--port", str(self._port)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            with suppress(UserError):
                check_answers(self.uri)
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"mlflow server does not answer at {self.uri}")
            time.sleep(0.3)

    def kill(self) -> None:
        """SIGKILL it with its workers."""
        parent = psutil.Process(self._process.pid)
        for process in [*parent.children(recursive=True), parent]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


class Scene:
    """A sweep on a cluster, and what can be done to both.

    Args:
        cluster: The cluster.
        folder: An empty folder, the user's.
        store: Where the sweep store is to be.
        sections: Of the sweep file, beyond the usual.
        server: Of MLflow; None for SQLite.
    """

    def __init__(
        self,
        cluster: RayCluster,
        folder: Path,
        store: Path,
        sections: dict[str, Any],
        server: MlflowServer | None = None,
    ) -> None:
        self.cluster, self.folder, self.storage = cluster, folder, str(store)
        self.server = server
        self.store = SweepStore(self.storage, "fragile")
        self._place = ("--address", cluster.url, "--storage", self.storage)
        self.log = folder / "epochs.log"
        self.log.touch()
        (folder / "logged.py").write_text(_OWN_LOSS.format(log=str(self.log)))
        self.sweep = parse_sweep(
            {
                "name": "fragile",
                "dataset": {"name": "digits", "train_samples": 200},
                "model": {"name": "small_cnn", "width": 4},
                "losses": [
                    {"name": "logged:Logged", "space": {"alpha": {"low": 0.5, "high": 2.0}}}
                ],
                "training": {"epochs": EPOCHS, "batch_size": 64, "lr": 0.05},
                "search": {"trials": TRIALS},
                "scheduler": {"name": "none"},
                "selection": {"finalists": 0},
                **sections,
            }
        )
        (folder / "sweep.yaml").write_text(dump_sweep(self.sweep))

    def calsweep(self, *arguments: str) -> str:
        """Run a command to its end; what it printed.

        Raises:
            RuntimeError: It failed.
        """
        done = subprocess.run(
            [CALSWEEP, *arguments],
            cwd=self.folder,
            env=self.cluster.environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"calsweep {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self) -> None:
        """Hand the sweep to the cluster."""
        printed = self.calsweep("submit", "sweep.yaml", *self._place)
        self.job = printed.splitlines()[-1]

    def resume(self) -> None:
        """Hand it over once more."""
        printed = self.calsweep("resume", "fragile", *self._place)
        self.job = printed.splitlines()[-1]

    def sync(self) -> None:
        """Bring MLflow up to date."""
        self.calsweep("sync", "fragile", "--storage", self.storage)

    def state(self) -> str:
        """Of the job."""
        return find_job(self.job, self.cluster.url).state

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait for something.

        Raises:
            TimeoutError: It does not happen.
        """
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise TimeoutError(self.calsweep("logs", self.job, "--address", self.cluster.url))
            time.sleep(0.2)

    def has_ended(self) -> bool:
        """Whether the job ended."""
        return self.state() in ("SUCCEEDED", "FAILED", "STOPPED")

    def epochs(self) -> list[Epoch]:
        """All that were trained so far."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [Epoch(float(when), int(pid), trial, int(n)) for when, pid, trial, n in lines]

    def driver(self) -> psutil.Process:
        """The process of ``calsweep run`` or ``resume``."""
        return next(p for p in self.cluster.head.processes() if _is_driver(p))

    def processes_of(self, title: str, nodes: list[Node]) -> list[psutil.Process]:
        """Ray's processes of that title."""
        return [p for node in nodes for p in node.processes() if title in _title(p)]


def _title(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _is_driver(process: psutil.Process) -> bool:
    words = _title(process).split()
    return words[1:3] == ["-m", "sweeps.cli"]  # once it is in its copy of what was sent


Fault = Callable[[Scene, random.Random], dict[str, int]]


def trial_process(scene: Scene, rng: random.Random) -> dict[str, int]:
    """SIGKILL of a trial's process."""
    running = scene.processes_of("ray::ResourceTrainable", scene.cluster.nodes)  # as Tune calls it
    if not running:  # at this moment
        return {}
    victim = rng.choice(running)
    cut_off = _cut_off(scene, {victim.pid})
    victim.kill()
    return cut_off


def train_worker(scene: Scene, rng: random.Random) -> dict[str, int]:
    """SIGKILL of one of a DDP trial's workers."""
    running = scene.processes_of("RayTrainWorker", scene.cluster.nodes)
    if not running:
        return {}
    cut_off = _cut_off(scene, {process.pid for process in running})
    rng.choice(running).kill()
    return cut_off


def node(scene: Scene, rng: random.Random) -> dict[str, int]:
    """A whole node gone, another one joins."""
    victim = rng.choice(scene.cluster.nodes)
    cut_off = _cut_off(scene, {process.pid for process in victim.processes()})
    victim.kill()
    scene.cluster.nodes.remove(victim)
    scene.cluster.add_node(cpus=1)
    return cut_off


def driver(scene: Scene, rng: random.Random) -> dict[str, int]:
    """SIGKILL of the driver, then `resume`."""
    cut_off = _cut_off(scene)
    scene.driver().kill()
    scene.wait(scene.has_ended)
    scene.resume()
    return cut_off


def head(scene: Scene, rng: random.Random) -> dict[str, int]:
    """The head gone and restarted, then `resume`."""
    cut_off = _cut_off(scene)
    cluster = scene.cluster
    cluster.stop()
    cluster.nodes.clear()
    cluster.start_head()
    for _ in range(2):
        cluster.add_node(cpus=1)
    scene.resume()
    return cut_off


def damaged_checkpoint(scene: Scene, rng: random.Random) -> dict[str, int]:
    """A checkpoint cut short, or with a flipped byte."""
    cut_off = _cut_off(scene)
    scene.driver().kill()
    scene.wait(scene.has_ended)
    for record in scene.store.load_records():
        folder = Path((scene.store.trial_folder(record.number) / "checkpoints").path)
        names = sorted(folder.glob("epoch_*.pt")) if record.state == "running" else []
        if names:
            data = bytearray(names[-1].read_bytes())
            if rng.random() < 0.5:
                del data[rng.randrange(len(data)) :]
            else:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            names[-1].write_bytes(data)
    scene.resume()
    return cut_off


def storage_full(scene: Scene, rng: random.Random) -> dict[str, int]:
    """The storage full for ten seconds."""
    ballast = Path(scene.storage) / "ballast"
    before = len(scene.epochs())
    with suppress(OSError), open(ballast, "wb") as stream:
        while True:
            stream.write(b"0" * 4096)
            stream.flush()
    time.sleep(10)
    waiting = scene.calsweep("logs", scene.job, "--address", scene.cluster.url)
    ballast.unlink()
    if "; waiting" not in waiting:
        raise RuntimeError(f"nobody said that the storage is full:\n{waiting}")
    if len(scene.epochs()) - before > 2 * len(scene.cluster.nodes):
        raise RuntimeError("epochs were trained that could not be saved")
    return {}


def mlflow_away(scene: Scene, rng: random.Random) -> dict[str, int]:
    """MLflow's server gone for ten seconds; after the sweep `sync`."""
    assert scene.server is not None
    scene.server.kill()
    time.sleep(10)
    scene.server.start()
    scene.wait(scene.has_ended)
    scene.sync()  # for a sweep that did not wait for it at its end
    return {}


def mlflow_gone(scene: Scene, rng: random.Random) -> dict[str, int]:
    """MLflow's server gone for good; after the sweep a new one, and `sync`."""
    assert scene.server is not None
    scene.server.kill()
    scene.wait(scene.has_ended)
    scene.server.start()
    scene.sync()
    return {}


def _cut_off(scene: Scene, pids: set[int] | None = None) -> dict[str, int]:
    """The trials that are being trained (by these processes), and not at their end, with those."""
    last = {epoch.trial: epoch for epoch in scene.epochs()}
    return {
        epoch.trial: epoch.pid
        for epoch in last.values()
        if epoch.number < EPOCHS and (pids is None or epoch.pid in pids)
    }


@dataclass(frozen=True)
class Kind:
    """A fault, and the sweep that it happens to.

    Attributes:
        happens: The fault.
        sections: Of the sweep file.
        scarce: Whether the storage is small.
        server: Whether MLflow has a server of its own.
    """

    happens: Fault
    sections: dict[str, Any] = field(default_factory=dict)
    scarce: bool = False
    server: bool = False


FAULTS = {
    "trial process": Kind(trial_process),
    "node": Kind(node),
    "driver": Kind(driver),
    "head": Kind(head),
    "damaged checkpoint": Kind(damaged_checkpoint),
    "storage full": Kind(storage_full, scarce=True),
    "MLflow away": Kind(mlflow_away, server=True),
    "MLflow gone": Kind(mlflow_gone, server=True),
    "train worker": Kind(train_worker, {"scaling": {"num_workers": 2}, "search": {"trials": 2}}),
}


def one_try(cluster: RayCluster, kind: Kind, rng: random.Random) -> Outcome:
    """Run a sweep in the middle of which the fault happens; what came of it."""
    with _folders(kind.scarce) as (folder, store):
        sections = dict(kind.sections)
        server = MlflowServer(folder) if kind.server else None
        if server is not None:
            sections["tracking"] = {"uri": server.uri}
        elif kind.scarce:
            sections["tracking"] = {"uri": f"sqlite:///{folder}/mlflow.db"}
        scene = Scene(cluster, folder, store, sections, server)
        scene.submit()
        scene.wait(lambda: bool(scene.epochs()) or scene.has_ended())
        time.sleep(rng.uniform(0, 4))
        finished = _finished(scene)
        when = time.time()
        cut_off = kind.happens(scene, rng)
        scene.wait(scene.has_ended)
        outcome = _judge(scene, finished, cut_off, when)
        if server is not None:
            server.kill()
        return outcome


def _judge(
    scene: Scene, finished: dict[int, TrialRecord], cut_off: dict[str, int], when: float
) -> Outcome:
    wanted = scene.sweep.search.trials
    records = {r.number: r for r in scene.store.load_records() if r.state == "finished"}
    whole = {n for n, r in records.items() if [e["epoch"] for e in r.history] == [*_ALL_EPOCHS]}
    again = {n for n, r in finished.items() if records.get(n) != r}
    uri = tracking_uri(scene.storage, scene.sweep)
    tracked = {r.number for s in tracked_sweeps(uri) for r in s.records if r.state == "finished"}
    epochs = scene.epochs()
    waits = [
        min((e.when - when for e in epochs if e.trial == trial and e.pid != pid), default=None)
        for trial, pid in cut_off.items()
    ]
    return Outcome(
        trials=wanted,
        lost=len(set(range(wanted)) - whole | again | (set(range(wanted)) - tracked)),
        repeated=len(epochs) - len({(e.trial, e.number) for e in epochs}),
        seconds=[wait for wait in waits if wait is not None],
    )


_ALL_EPOCHS = range(1, EPOCHS + 1)


def _finished(scene: Scene) -> dict[int, TrialRecord]:
    return {r.number: r for r in scene.store.load_records() if r.state == "finished"}


@contextmanager
def _folders(scarce: bool) -> Iterator[tuple[Path, Path]]:
    """The user's folder, and the one of the store, which may be a small file system."""
    folder = Path(tempfile.mkdtemp(prefix="calsweep-faults-"))
    store = folder / "store"
    store.mkdir()
    if scarce:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(store)], check=True)
    try:
        yield folder, store
    finally:
        if scarce:
            subprocess.run(["umount", "-l", str(store)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_cluster() -> Iterator[RayCluster]:
    """A head without CPUs and two nodes of one CPU each."""
    cluster = RayCluster(head_cpus=0)
    try:
        for _ in range(2):
            cluster.add_node(cpus=1)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(cluster.temporary, ignore_errors=True)


def main() -> None:
    """Do it all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(FAULTS))
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.faults) - FAULTS.keys():
        parser.error(f"no fault {', '.join(unknown)}; there are: {', '.join(FAULTS)}")
    print("| fault | tries | trials | lost | repeated epochs | seconds to recover: median, most |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in arguments.faults or FAULTS:
        rng = random.Random(f"{arguments.seed} {name}")
        outcomes = []
        with running_cluster() as cluster:
            for number in range(arguments.tries):
                outcomes.append(one_try(cluster, FAULTS[name], rng))
                print(f"{name} {number + 1}: {outcomes[-1]}", file=sys.stderr, flush=True)
        print(_row(name, outcomes), flush=True)


def _row(name: str, outcomes: list[Outcome]) -> str:
    seconds = [value for outcome in outcomes for value in outcome.seconds]
    took = f"{statistics.median(seconds):.1f}, {max(seconds):.1f}" if seconds else "–"
    trials, lost, repeated = (
        sum(getattr(outcome, key) for outcome in outcomes) for key in ("trials", "lost", "repeated")
    )
    return f"| {name} | {len(outcomes)} | {trials} | {lost} | {repeated} | {took} |"


if __name__ == "__main__":
    main()
