"""Cluster faults at random moments of a sweep, and checks of the sweep afterwards."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sweeps.search.record import TrialRecord
from tests.harness.command import calsweep, send_signal
from tests.harness.object_store import BUCKET, ObjectStore
from tests.harness.ray_cluster import RayCluster
from tests.harness.scene import EPOCHS, MlflowServer, Scene

TABLE = "digits.csv"
_EAT = """
import sys, time
import psutil
eaten = []
while psutil.virtual_memory().available > float(sys.argv[1]):
    eaten.append(bytearray(b"x") * 2**27)
    time.sleep(0.05)
time.sleep(120)
"""  # until no more than that is left


@dataclass
class Outcome:
    """The effect of a fault on a sweep.

    Attributes:
        tries: How often it happened.
        trials: Trials of the sweep.
        lost: What is wrong with trials that did not end as they should, that were run again though
            finished, or of which MLflow lacks an epoch or an artifact.
        repeated: Epochs that were trained more than once.
        seconds: Until what was interrupted had its next epoch done.
    """

    tries: int = 0
    trials: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: int = 0
    seconds: list[float] = field(default_factory=list)


CutOff = dict[str, int]  # process of each interrupted trial
Fault = Callable[[Scene, random.Random], CutOff | None]  # None if there was nothing to break


def trial_process(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the process of a trial (SIGKILL)."""
    running = scene.processes_of("ray::ResourceTrainable", scene.cluster.nodes)  # title by Tune
    if not running:  # no trial is running right now
        return None
    victim = rng.choice(running)
    cut_off = _cut_off(scene, {victim.pid})
    victim.kill()
    return cut_off


def train_worker(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill a worker of a DDP trial (SIGKILL)."""
    running = scene.processes_of("RayTrainWorker", scene.cluster.nodes)
    if not running:
        return None
    cut_off = _cut_off(scene, {process.pid for process in running})
    rng.choice(running).kill()
    return cut_off


def node(scene: Scene, rng: random.Random) -> CutOff:
    """Kill a whole node; another one joins."""
    victim = rng.choice(scene.cluster.nodes)
    cut_off = _cut_off(scene, {process.pid for process in victim.processes()})
    victim.kill()
    scene.cluster.nodes.remove(victim)
    scene.cluster.add_node(cpus=1)
    return cut_off


def drained(scene: Scene, rng: random.Random) -> CutOff:
    """Drain a node, like a spot instance; it leaves when its trials have left."""
    victim = rng.choice(scene.cluster.nodes)
    cut_off = _cut_off(scene, {process.pid for process in victim.processes()})
    scene.cluster.add_node(cpus=1)  # the replacement by an autoscaler
    scene.cluster.drain(victim)
    trials = "ray::ResourceTrainable"
    scene.wait(lambda: not scene.processes_of(trials, [victim]) or scene.has_ended())
    victim.kill()
    scene.cluster.nodes.remove(victim)
    return cut_off


def driver(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the driver (SIGKILL), then `resume`."""
    cut_off = _cut_off(scene)
    if not scene.kill_driver():
        return None
    scene.resume()
    return cut_off


def head(scene: Scene, rng: random.Random) -> CutOff:
    """Kill and restart the head, then `resume`."""
    cut_off = _cut_off(scene)
    cluster = scene.cluster
    cluster.stop()
    cluster.nodes.clear()
    cluster.start_head()
    for _ in range(2):
        cluster.add_node(cpus=1)
    scene.resume()
    return cut_off


def damaged_checkpoint(scene: Scene, rng: random.Random) -> CutOff | None:
    """Truncate a checkpoint, or flip a byte."""
    cut_off = _cut_off(scene)
    if not scene.kill_driver():
        return None
    damaged = False
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
            damaged = True
    scene.resume()
    return cut_off if damaged else None


def storage_full(scene: Scene, rng: random.Random) -> CutOff:
    """Fill the storage for ten seconds."""
    ballast = Path(scene.storage) / "ballast"
    with suppress(OSError), open(ballast, "wb") as stream:
        while True:
            stream.write(b"0" * 4096)
            stream.flush()
    before = len(scene.epochs())
    time.sleep(10)
    said = scene.said()
    ballast.unlink()
    if "; waiting" not in said:  # printed every half minute
        raise RuntimeError("no one said that the storage is full")
    if len(scene.epochs()) - before > 2 * len(scene.cluster.nodes):
        raise RuntimeError("epochs were trained that could not be saved")
    return {}


def mlflow_away(scene: Scene, rng: random.Random) -> CutOff:
    """Stop the MLflow server for a minute."""
    assert scene.server is not None
    scene.server.kill()
    time.sleep(60)
    scene.server.start()
    return {}


def mlflow_gone(scene: Scene, rng: random.Random) -> CutOff:
    """Stop the MLflow server until the sweep has ended."""
    assert scene.server is not None
    scene.server.kill()
    scene.wait(scene.has_ended)
    scene.server.start()
    return {}


def run_deleted(scene: Scene, rng: random.Random) -> CutOff | None:
    """Delete the run of a trial in MLflow."""
    client, runs = scene.runs()
    if not runs:
        return None
    run = rng.choice(runs)
    client.delete_run(run.info.run_id)
    scene.deleted.add(int(run.data.tags["calsweep.trial"]))
    return {}


def data_changed(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the driver and change the data: `resume` fails until the data are restored."""
    cut_off = _cut_off(scene)
    if not scene.kill_driver():
        return None
    table = scene.folder / TABLE
    rows = table.read_text().splitlines()
    del rows[rng.randrange(1, len(rows))]
    before = table.rename(table.with_suffix(".before"))
    table.write_text("\n".join(rows))
    place = ("--storage", scene.storage, "--address", scene.cluster.address)
    refused = calsweep(
        scene.folder, "resume", "fragile", *place, environment=scene.cluster.environment
    )
    before.rename(table)
    if refused.returncode != 2 or "the data are not those" not in refused.stderr:
        raise RuntimeError(f"other data were not refused: {refused.stdout}{refused.stderr}")
    scene.resume()
    return cut_off


def busy_start(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the driver; `resume` starts a new Ray here while all cores are busy."""
    cut_off = _cut_off(scene)
    if not scene.kill_driver():
        return None
    before = len(scene.epochs())
    spin = [sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    here = scene.resume_here()
    try:
        scene.wait_here(here, lambda: len(scene.epochs()) > before)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    send_signal(here, signal.SIGINT)
    here.join()
    scene.resume()
    return cut_off


def low_memory(scene: Scene, rng: random.Random) -> CutOff | None:
    """Use up the free memory until Ray kills the process of a trial."""

    def kills() -> int:
        return scene.said().count("runs low on memory")

    before, cut_off = kills(), _cut_off(scene)
    share = float(scene.cluster.of_nodes["RAY_memory_usage_threshold"])
    left = (1 - share) * psutil.virtual_memory().total - 2**30
    hog = subprocess.Popen([sys.executable, "-c", _EAT, str(left)])
    until = time.monotonic() + 60
    while not (killed := kills() > before) and time.monotonic() < until:
        time.sleep(0.5)
    hog.kill()
    hog.wait()
    return cut_off if killed else None


def readers_refused(scene: Scene, rng: random.Random) -> CutOff:
    """Let the storage answer reads with 503 for twenty seconds."""
    assert scene.cluster.object_store is not None
    scene.cluster.object_store.refuses_readers = True
    time.sleep(20)
    scene.cluster.object_store.refuses_readers = False
    return {}


def second_driver(scene: Scene, rng: random.Random) -> CutOff | None:
    """Suspend the driver until a second one takes over the sweep, then wake it up."""
    drivers = scene.drivers()
    if not drivers:
        return None
    for process in drivers:
        process.suspend()
    second = scene.resume_here("--address", scene.cluster.address)
    said = scene.folder / "here.log"
    scene.wait_here(second, lambda: "Starting the first trials" in said.read_text())
    for process in drivers:
        process.resume()
    scene.wait(scene.has_ended)
    second.join()
    return {}


def _cut_off(scene: Scene, pids: set[int] | None = None) -> CutOff:
    """The running trials that are not in their last epoch, with their processes."""
    last = {epoch.trial: epoch for epoch in scene.epochs()}
    return {
        epoch.trial: epoch.pid
        for epoch in last.values()
        if epoch.number < EPOCHS and (pids is None or epoch.pid in pids)
    }


@dataclass(frozen=True)
class Kind:
    """A fault, and the sweep in which it is injected.

    Attributes:
        happens: The fault.
        sections: Of the sweep file.
        scarce: Whether the storage is small.
        server: Whether MLflow has a server of its own.
        table: Whether the data are a file of the user's.
        remote: Whether the storage is an object store.
        room: GiB that the cluster and the sweep may take beyond what is taken now, before Ray kills
            trials; None for what Ray allows.
    """

    happens: Fault
    sections: dict[str, Any] = field(default_factory=dict)
    scarce: bool = False
    server: bool = False
    table: bool = False
    remote: bool = False
    room: int | None = None

    @property
    def needs(self) -> tuple[bool, int | None]:
        """Of the cluster; kinds that need the same may happen to one, one after the other."""
        return (self.remote, self.room)


_LONG: dict[str, Any] = {"search": {"sampler": "tpe", "trials": 100}}
_TWO_WORKERS: dict[str, Any] = {
    "scaling": {"num_workers": 2},
    "search": {"sampler": "tpe", "trials": 60},
}
FAULTS = {
    "trial process": Kind(trial_process, _LONG),
    "train worker": Kind(train_worker, _TWO_WORKERS),
    "node": Kind(node, _LONG),
    "node drained": Kind(drained, _LONG),
    "driver": Kind(driver, _LONG),
    "head": Kind(head, _LONG),
    "MLflow away": Kind(mlflow_away, _LONG, server=True),
    "MLflow gone": Kind(mlflow_gone, server=True),
    "storage full": Kind(storage_full, _LONG, scarce=True),
    "damaged checkpoint": Kind(damaged_checkpoint, _LONG),
    "busy start": Kind(busy_start, _LONG),
    "data changed": Kind(data_changed, _LONG, table=True),
    "run deleted": Kind(run_deleted, _LONG, server=True),
    "low memory": Kind(low_memory, _LONG, room=4),
    "low memory, two workers": Kind(low_memory, _TWO_WORKERS, room=8),
    "readers refused": Kind(readers_refused, _LONG, remote=True),
    "second driver": Kind(second_driver, remote=True),
}


def faulty_sweep(cluster: RayCluster, kind: Kind, rng: random.Random, tries: int) -> Outcome:
    """Run a sweep, inject the fault at most ``tries`` times, and return the outcome."""
    with _folders(kind.scarce) as (folder, store):
        sections = dict(kind.sections)
        database = f"sqlite:///{folder}/mlflow.db"
        server = MlflowServer(database, str(folder / "artifacts")) if kind.server else None
        if server is not None:
            sections["tracking"] = {"uri": server.uri}
        elif kind.scarce or kind.remote:
            sections["tracking"] = {"uri": database}
        if kind.table:
            sections |= _table(folder)
        place = f"s3://{BUCKET}/{folder.name}" if kind.remote else store
        scene = Scene(cluster, folder, place, sections, server)
        scene.submit()
        finished: dict[int, TrialRecord] = {}
        cut_offs: list[tuple[float, CutOff]] = []
        while len(cut_offs) < tries and _continue(scene, rng):
            finished |= scene.finished()
            when = time.time()
            cut_off = kind.happens(scene, rng)
            if cut_off is not None:
                cut_offs.append((when, cut_off))
        scene.wait(scene.has_ended)
        if server is not None:
            scene.sync()
        outcome = _judge(scene, finished, cut_offs)
        if server is not None:
            server.kill()
        return outcome


def _continue(scene: Scene, rng: random.Random) -> bool:
    """Wait for the next epoch and a random time; False if the sweep ends before."""
    before = len(scene.epochs())
    scene.wait(lambda: len(scene.epochs()) > before or scene.has_ended())
    time.sleep(rng.uniform(0, 4))
    return not scene.has_ended()


def _judge(
    scene: Scene, finished: dict[int, TrialRecord], cut_offs: list[tuple[float, CutOff]]
) -> Outcome:
    records = {record.number: record for record in scene.store.load_records()}
    tracked = scene.tracked() | scene.deleted
    wrong = {
        number: _what_is_wrong(records.get(number), finished.get(number), number in tracked)
        for number in range(scene.sweep.search.trials)
    }
    epochs = scene.epochs()
    of_trial = {
        trial: [e for e in epochs if e.trial == trial] for trial in {e.trial for e in epochs}
    }
    waits = [
        next((e.when - when for e in of_trial[trial] if e.when > when and e.pid != pid), None)
        for when, cut_off in cut_offs
        for trial, pid in cut_off.items()
    ]
    return Outcome(
        tries=len(cut_offs),
        trials=len(wrong),
        lost=[f"trial {number}: {what}" for number, what in wrong.items() if what],
        repeated=len(epochs) - len({(e.trial, e.number) for e in epochs}),
        seconds=[wait for wait in waits if wait is not None],
    )


def _what_is_wrong(
    record: TrialRecord | None, finished: TrialRecord | None, tracked: bool
) -> str | None:
    """The error in the final record of a trial, given its record before the fault if finished."""
    if record is None:
        return "no record"
    epochs = [entry["epoch"] for entry in record.history]
    if record.state != "finished" or epochs != list(range(1, EPOCHS + 1)):
        return f"{record.state} ({record.reason}) after the epochs {epochs}"
    if finished is not None and record != finished:
        return "finished, and run again"
    return None if tracked else "not all of it is in MLflow"


def _table(folder: Path) -> dict[str, Any]:
    """Write a table of digits, and return the sections of a sweep on it."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    names = ",".join([f"pixel_{i}" for i in range(images.shape[1])] + ["digit"])
    rows = np.column_stack([images, labels])[:400]
    np.savetxt(folder / TABLE, rows, "%d", ",", header=names, comments="")
    data = {"name": "csv", "train": str(folder / TABLE), "label": "digit"}
    return {"dataset": data, "model": {"name": "table_mlp"}}


@contextmanager
def _folders(scarce: bool) -> Iterator[tuple[Path, Path]]:
    """The user's folder, and the folder of the store, which may be a small file system."""
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
def running_cluster(remote: bool = False, room: int | None = None) -> Iterator[RayCluster]:
    """A head without CPUs and two nodes with one CPU each, as in :attr:`Kind.needs`."""
    store = ObjectStore() if remote else None
    variables = store.environment if store is not None else {}
    of_nodes = {} if room is None else _watched_memory(room)
    cluster = RayCluster(head_cpus=0, variables=variables, of_nodes=of_nodes, object_store=store)
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        for _ in range(2):
            cluster.add_node(cpus=1)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(cluster.temporary, ignore_errors=True)
        for name in variables:
            del os.environ[name]
        os.environ.update(before)
        if store is not None:
            store.stop()


def _watched_memory(room: int) -> dict[str, str]:
    """Environment in which Ray kills trials when memory use grows by ``room`` GiB."""
    memory = psutil.virtual_memory()
    threshold = 1 - (memory.available - room * 2**30) / memory.total
    return {
        "RAY_memory_usage_threshold": f"{threshold:.4f}",
        "RAY_memory_monitor_refresh_ms": "100",
    }
