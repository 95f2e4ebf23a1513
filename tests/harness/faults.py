"""Cluster faults at random moments of a sweep, and checks of the sweep afterwards."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sweeps.search.record import TrialRecord
from tests.builders import is_kept
from tests.harness import injections as inject
from tests.harness.injections import TABLE, CutOff, Fault
from tests.harness.lost_replies import LossyProxy
from tests.harness.object_store import BUCKET, ObjectStore
from tests.harness.ray_cluster import RayCluster
from tests.harness.scene import EPOCHS, VARIANTS, MlflowServer, Scene, logged_loss
from tests.harness.stepped_clock import clock_environment
from tests.harness.webhook import Webhook


@dataclass
class Outcome:
    """The effect of a fault on a sweep.

    Attributes:
        tries: How often it happened.
        trials: Trials of the sweep.
        lost: What is wrong with trials that did not end as they should, that were run again though
            finished, or of which MLflow lacks or duplicates an epoch or an artifact; and the result
            of the sweep if it has none.
        repeated: Epochs that were trained more than once.
        seconds: Until what was interrupted had its next epoch done.
        said: Output of the sweep's last job.
    """

    tries: int = 0
    trials: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: int = 0
    seconds: list[float] = field(default_factory=list)
    said: str = ""


@dataclass(frozen=True)
class Kind:
    """A fault, and the sweep in which it is injected.

    Attributes:
        happens: The fault.
        sections: Of the sweep file.
        scarce: Whether the storage is small.
        server: Whether MLflow has a server of its own.
        lossy: Whether its replies come through a proxy that can lose them.
        table: Whether the data are a file of the user's.
        webhook: Whether the sweep announces its end to one.
        remote: Whether the storage is an object store.
        clock: Whether the cluster's clock can be stepped.
        room: GiB that the cluster and the sweep may take beyond what is taken now, before Ray kills
            trials; None for what Ray allows.
    """

    happens: Fault
    sections: dict[str, Any] = field(default_factory=dict)
    scarce: bool = False
    server: bool = False
    lossy: bool = False
    table: bool = False
    webhook: bool = False
    remote: bool = False
    clock: bool = False
    room: int | None = None

    @property
    def needs(self) -> tuple[bool, bool, int | None]:
        """Of the cluster; kinds that need the same may happen to one, one after the other."""
        return (self.remote, self.clock, self.room)


_LONG: dict[str, Any] = {"search": {"sampler": "tpe", "trials": 100}}
_SHORT: dict[str, Any] = {"search": {"sampler": "tpe", "trials": 20}}
_TWO_WORKERS: dict[str, Any] = {
    "scaling": {"num_workers": 2},
    "search": {"sampler": "tpe", "trials": 60},
}
_LIMITED: dict[str, Any] = {
    "search": {"sampler": "tpe", "trials": 20, "max_minutes_per_trial": 0.5, "max_failures": 3}
}
_MANY: dict[str, Any] = {"search": {"sampler": "tpe", "trials": 1000}}
_GUIDED: dict[str, Any] = {  # it ends when it has tried every loss, or later
    "search": {"sampler": "guided", "trials": 40},
    "losses": [logged_loss(variant) for variant in range(VARIANTS)],
    "selection": {"finalists": 0, "per_loss": True},
}
_ONE_HOUR: dict[str, Any] = {"search": {"sampler": "tpe", "trials": 60, "max_hours": 1}}
FAULTS = {
    "trial process": Kind(inject.trial_process, _LONG),
    "train worker": Kind(inject.train_worker, _TWO_WORKERS),
    "node": Kind(inject.node, _LONG),
    "every node": Kind(inject.every_node, _LONG),
    "late node": Kind(inject.late_node, _LONG),
    "suspended trial": Kind(inject.suspended, _SHORT),
    "hanging trial": Kind(inject.hanging, _LIMITED),
    "broken node": Kind(inject.broken_node, _LIMITED),
    "out of memory": Kind(inject.out_of_memory, _SHORT),
    "redirecting webhook": Kind(inject.redirecting_webhook, _SHORT, webhook=True),
    "two mounts": Kind(inject.other_mount, _SHORT),
    "names by case": Kind(inject.other_case, _SHORT),
    "thousand trials": Kind(inject.milliseconds, _MANY),
    "failing calls": Kind(inject.failing_calls, _LONG, server=True, lossy=True),
    "changed code": Kind(inject.changed_code, _LONG),
    "node drained": Kind(inject.drained, _LONG),
    "driver": Kind(inject.driver, _LONG),
    "head": Kind(inject.head, _LONG),
    "MLflow away": Kind(inject.mlflow_away, _LONG, server=True),
    "MLflow gone": Kind(inject.mlflow_gone, server=True),
    "storage full": Kind(inject.storage_full, _LONG, scarce=True),
    "damaged checkpoint": Kind(inject.damaged_checkpoint, _LONG),
    "busy start": Kind(inject.busy_start, _LONG),
    "data changed": Kind(inject.data_changed, _LONG, table=True),
    "run deleted": Kind(inject.run_deleted, _LONG, server=True),
    "lost replies": Kind(inject.lost_replies, _LONG, server=True, lossy=True),
    "moved storage": Kind(inject.moved_storage, _LONG),
    "closed output": Kind(inject.closed_output, _LONG),
    "damaged neighbour": Kind(inject.damaged_neighbour, _LONG),
    "guided sweep": Kind(inject.any_kill, _GUIDED),
    "clock step": Kind(inject.clock_step, _ONE_HOUR, clock=True),
    "low memory": Kind(inject.low_memory, _LONG, room=4),
    "low memory, two workers": Kind(inject.low_memory, _TWO_WORKERS, room=8),
    "readers refused": Kind(inject.readers_refused, _LONG, remote=True),
    "storage refused": Kind(inject.storage_refused, _LONG, remote=True),
    "second driver": Kind(inject.second_driver, remote=True),
}


def faulty_sweep(cluster: RayCluster, kind: Kind, rng: random.Random, tries: int) -> Outcome:
    """Run a sweep, inject the fault at most ``tries`` times, and return the outcome."""
    with scene_on(cluster, kind) as scene:
        scene.submit()
        finished: dict[int, TrialRecord] = {}
        cut_offs: list[tuple[float, CutOff]] = []
        while len(cut_offs) < tries and some_epochs(scene, rng):
            finished |= scene.finished()
            when = time.time()
            cut_off = kind.happens(scene, rng)
            if cut_off is not None:
                cut_offs.append((when, cut_off))
        return outcome_of(scene, finished, cut_offs)


@contextmanager
def scene_on(cluster: RayCluster, kind: Kind) -> Iterator[Scene]:
    """A scene for this kind of fault, in a temporary folder."""
    with _folders(kind.scarce) as (folder, store):
        sections = dict(kind.sections)
        database = f"sqlite:///{folder}/mlflow.db"
        server = MlflowServer(database, str(folder / "artifacts")) if kind.server else None
        proxy = LossyProxy(server.uri) if server is not None and kind.lossy else None
        webhook = Webhook() if kind.webhook else None
        if webhook is not None:
            sections["tracking"] = {"notify": webhook.url}
        if server is not None:
            sections["tracking"] = {"uri": proxy.uri if proxy is not None else server.uri}
        elif kind.scarce or kind.remote:
            sections["tracking"] = {"uri": database}
        if kind.table:
            sections |= _table(folder)
        place = f"s3://{BUCKET}/{folder.name}" if kind.remote else store
        try:
            yield Scene(cluster, folder, place, sections, server, proxy, webhook)
        finally:
            if server is not None:
                server.kill()
            if proxy is not None:
                proxy.stop()
            if webhook is not None:
                webhook.stop()


def outcome_of(
    scene: Scene, finished: dict[int, TrialRecord], cut_offs: list[tuple[float, CutOff]]
) -> Outcome:
    """Wait for the end of the sweep, and judge it.

    Args:
        scene: The scene.
        finished: Records of the trials that had finished before a fault, by number.
        cut_offs: What each fault interrupted, and when.
    """
    scene.wait(scene.has_ended)
    if scene.server is not None:
        scene.sync()
    if scene.proxy is not None:
        scene.proxy.share = scene.proxy.refused = 0.0
    return _judge(scene, finished, cut_offs)


def some_epochs(scene: Scene, rng: random.Random) -> bool:
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
        for number in range(_planned(scene, records))
    }
    lost = [f"trial {number}: {what}" for number, what in wrong.items() if what]
    if scene.store.load_answer() is None:
        lost.append("the result of the sweep")
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
        lost=lost,
        repeated=repeated(scene),
        seconds=[wait for wait in waits if wait is not None],
        said=scene.said(),
    )


def repeated(scene: Scene) -> int:
    """Number of epochs that were trained more than once, until now."""
    epochs = scene.epochs()
    return len(epochs) - len({(epoch.trial, epoch.number) for epoch in epochs})


def _planned(scene: Scene, records: dict[int, TrialRecord]) -> int:
    """Number of trials that have to be there; a guided search may end at any time."""
    if scene.sweep.search.sampler != "guided":
        return scene.sweep.search.trials
    return max(len(records), len({epoch.trial for epoch in scene.epochs()}))


def _what_is_wrong(
    record: TrialRecord | None, finished: TrialRecord | None, tracked: bool
) -> str | None:
    """The error in the final record of a trial, given its record before the fault if finished."""
    if record is None:
        return "no record"
    epochs = [entry["epoch"] for entry in record.history]
    if record.state != "finished" or epochs != list(range(1, EPOCHS + 1)):
        return f"{record.state} ({record.reason}) after the epochs {epochs}"
    if finished is not None and not is_kept(finished, record):
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
    return {"dataset": data, "model": {"name": "table_mlp", "width": 16, "vector_size": 4}}


@contextmanager
def _folders(scarce: bool) -> Iterator[tuple[Path, Path]]:
    """The user's folder, and the folder of the store, which may be a small file system."""
    folder = Path(tempfile.mkdtemp(prefix="calsweep-faults-"))
    store = folder / "store"
    store.mkdir()
    if scarce:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(store)], check=True)
    try:
        yield folder, store
    finally:
        if scarce:
            subprocess.run(["umount", "-l", str(store)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_cluster(
    remote: bool = False,
    clock: bool = False,
    room: int | None = None,
    variables: Mapping[str, str] = {},
) -> Iterator[RayCluster]:
    """A head without CPUs and two nodes with one CPU each, as in :attr:`Kind.needs`.

    Its processes and this one have the variables.
    """
    store = ObjectStore() if remote else None
    variables = {**variables, **(store.environment if store is not None else {})}
    variables |= clock_environment() if clock else {}
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
