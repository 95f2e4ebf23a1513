"""What may happen to a sweep on a cluster: each function does it once."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from tests.harness.command import CALSWEEP, calsweep, send_signal
from tests.harness.object_store import READS, WRITES
from tests.harness.scene import EPOCHS, Scene
from tests.harness.stepped_clock import step_clock

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

_SUSPENDED_SECONDS = 300.0

CutOff = dict[str, int]  # process of each interrupted trial
Fault = Callable[[Scene, random.Random], CutOff | None]  # None if there was nothing to break


def trial_process(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the process of a trial (SIGKILL)."""
    victim = _trial(scene, rng)
    if victim is None:
        return None
    cut_off = _cut_off(scene, {victim.pid})
    victim.kill()
    return cut_off


def out_of_memory(scene: Scene, rng: random.Random) -> CutOff | None:
    """Put a trial's process in a control group, and let it exceed that group's memory."""
    victim = _trial(scene, rng)
    if victim is None:
        return None
    group = Path(f"/sys/fs/cgroup/memory/calsweep-{victim.pid}")  # version 1
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(2**28))
    (group / "cgroup.procs").write_text(str(victim.pid))
    cut_off = _cut_off(scene, {victim.pid})
    scene.order(f"eat-{victim.pid}").touch()
    scene.wait(lambda: not victim.is_running() or scene.has_ended())
    killed = "oom_kill 1" in (group / "memory.oom_control").read_text()
    group.rmdir()
    return cut_off if killed else None


def hanging(scene: Scene, rng: random.Random) -> CutOff | None:
    """Let a trial hang until `search.max_minutes_per_trial` ends it, then `retry` it."""
    victim = _trial(scene, rng)
    if victim is None:
        return None
    cut_off = _cut_off(scene, {victim.pid})
    scene.order(f"hang-{victim.pid}").touch()

    def ended() -> list[int]:
        failed = [r for r in scene.store.load_records() if r.state == "failed"]
        return [r.number for r in failed if "max_minutes_per_trial" in str(r.reason)]

    scene.wait(lambda: bool(ended()) or scene.has_ended())
    if not ended():
        return None
    scene.wait(lambda: not victim.is_running())
    said = scene.calsweep("retry", "fragile", *map(str, ended()), "--storage", scene.storage)
    if "continues the sweep" in said:  # it has ended meanwhile
        scene.wait(scene.has_ended)
        scene.resume()
    scene.wait(lambda: not ended())
    return cut_off


def broken_node(scene: Scene, rng: random.Random) -> CutOff | None:
    """Let all trials of a node fail until the sweep ends; then mend it, `retry` and `resume`."""
    scene.order("broken").write_text(rng.choice(scene.cluster.nodes).id)
    scene.wait(scene.has_ended)
    scene.order("broken").unlink()
    said = scene.said()
    if "failed, so the sweep has ended early" not in said:
        raise RuntimeError(f"the sweep has not ended early: {said}")
    scene.calsweep("retry", "fragile", "--failed", "--storage", scene.storage)
    scene.resume()
    return {}


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


def every_node(scene: Scene, rng: random.Random) -> CutOff:
    """Kill all nodes, with all trials; others join half a minute later."""
    nodes = list(scene.cluster.nodes)
    cut_off = _cut_off(scene, {process.pid for each in nodes for process in each.processes()})
    for each in nodes:
        each.kill()
        scene.cluster.nodes.remove(each)
    time.sleep(30)
    for _ in nodes:
        scene.cluster.add_node(cpus=1)
    return cut_off


def late_node(scene: Scene, rng: random.Random) -> CutOff | None:
    """A node joins late, and has to get trials; another one leaves after that."""
    scene.cluster.add_node(cpus=1)
    joined = scene.cluster.nodes[-1]

    def works() -> bool:
        return bool(scene.processes_of("ray::ResourceTrainable", [joined]))

    scene.wait(lambda: works() or scene.has_ended())
    if not works():
        return None
    victim = scene.cluster.nodes[0]
    cut_off = _cut_off(scene, {process.pid for process in victim.processes()})
    victim.kill()
    scene.cluster.nodes.remove(victim)
    return cut_off


def suspended(scene: Scene, rng: random.Random) -> CutOff | None:
    """Suspend the process of a trial for five minutes (SIGSTOP), while the others continue."""
    victim = _trial(scene, rng)
    if victim is None:
        return None
    victim.suspend()
    time.sleep(_SUSPENDED_SECONDS)
    with suppress(psutil.NoSuchProcess):
        victim.resume()
    return {}  # it continues where it was


def changed_code(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the driver, edit the user's code, then `resume`, which has to warn."""
    cut_off = _cut_off(scene)
    if not scene.kill_driver():
        return None
    module = scene.folder / "logged.py"
    module.write_text(module.read_text() + f"# {time.time()}\n")
    scene.resume()
    scene.wait(lambda: "logged.py has changed" in scene.said() or scene.has_ended())
    if "logged.py has changed" not in scene.said():
        raise RuntimeError("no one said that the code has changed")
    return cut_off


def drained(scene: Scene, rng: random.Random) -> CutOff:
    """Drain a node, like a spot instance; it leaves when its trials have left."""
    victim = rng.choice(scene.cluster.nodes)
    scene.cluster.add_node(cpus=1)  # the replacement by an autoscaler
    cut_off = _cut_off(scene, {process.pid for process in victim.processes()})
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
    """Fill the storage for ten seconds or more, until the sweep has something to write."""
    ballast = Path(scene.storage) / "ballast"
    with suppress(OSError), open(ballast, "wb") as stream:
        while True:
            stream.write(b"0" * 4096)
            stream.flush()
    before = len(scene.epochs())
    time.sleep(10)
    until = time.monotonic() + 50  # an epoch takes longer on a busy machine
    while "; waiting" not in (said := scene.said()) and time.monotonic() < until:
        time.sleep(1)
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
    scene.cluster.object_store.refused = READS
    time.sleep(20)
    scene.cluster.object_store.refused = ()
    return {}


def storage_refused(scene: Scene, rng: random.Random) -> CutOff:
    """Let the storage answer everything with 503 for a minute."""
    assert scene.cluster.object_store is not None
    scene.cluster.object_store.refused = (*READS, *WRITES)
    time.sleep(60)
    scene.cluster.object_store.refused = ()
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


def lost_replies(scene: Scene, rng: random.Random) -> CutOff | None:
    """Lose up to a third of MLflow's replies for twenty seconds, and a tenth from then on."""
    assert scene.proxy is not None
    before = scene.proxy.lost
    scene.proxy.share = rng.uniform(0.1, 0.33)
    time.sleep(20)
    scene.proxy.share = 0.1
    return {} if scene.proxy.lost > before else None


def failing_calls(scene: Scene, rng: random.Random) -> CutOff:
    """Fail 27 % of MLflow's calls from now on, also of `sync`: half of them are carried out."""
    assert scene.proxy is not None
    scene.proxy.share, scene.proxy.refused = 0.156, 0.135
    scene.wait(scene.has_ended)
    return {}


def redirecting_webhook(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the driver; the webhook then redirects and fails, and gets one message all the same."""
    assert scene.webhook is not None
    cut_off = driver(scene, rng)
    if cut_off is None:
        return None
    scene.webhook.statuses = [302, 503, 301, 307]
    scene.wait(scene.has_ended)
    scene.resume()  # it has finished: no second message
    scene.wait(scene.has_ended)
    if (states := [message["state"] for message in scene.webhook.received]) != ["finished"]:
        raise RuntimeError(f"the webhook got {states}")
    return cut_off


def milliseconds(scene: Scene, rng: random.Random) -> CutOff:
    """Further epochs take milliseconds."""
    scene.quickly()
    scene.wait(scene.has_ended, seconds=3600)
    return {}


def other_mount(scene: Scene, rng: random.Random) -> CutOff:
    """Use the storage where it has another path and this one is hidden, as in a container."""
    there = "/mnt/calsweep-store"
    enter = 'mount -t tmpfs t /mnt; mkdir $1; mount --bind $0 $1; mount -t tmpfs t $0; shift; "$@"'

    def calsweep_there(*words: str) -> None:
        space = ("unshare", "--mount", "sh", "-ec", enter, scene.storage, there)
        command = (*space, CALSWEEP, *words, "--storage", there)
        done = subprocess.run(
            command,
            cwd=scene.folder,
            env=scene.cluster.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"calsweep {' '.join(words)}: {done.stdout}{done.stderr}")

    name = f"other-{rng.getrandbits(32)}"
    few = ("--set", "search.trials=2", "--set", "losses=[focal]", "--name", name)
    calsweep_there("run", "sweep.yaml", "--debug", *few)
    for words in (("sync", name), ("best",), ("show", "fragile"), ("list",)):
        calsweep_there(*words)
    scene.wait(scene.has_ended)
    calsweep_there("sync", "fragile")
    if Path(there).exists():
        raise RuntimeError(f"files were written to {there}, where the storage is not")
    scene.sync()  # MLflow's places are absolute, and follow the last command
    return {}


def other_case(scene: Scene, rng: random.Random) -> CutOff:
    """Another sweep in the storage, whose name differs by case only, runs at the same time."""
    words = ("--name", "Fragile", "--set", "search.trials=10", "--set", "losses=[focal]")
    scene.calsweep("run", "sweep.yaml", "--debug", *words, "--storage", scene.storage)
    if len(scene.runs("Fragile")[1]) != 10:
        raise RuntimeError("not all runs of the other sweep are in MLflow")
    return {}


def clock_step(scene: Scene, rng: random.Random) -> CutOff:
    """Step the cluster's clock, to up to two hours before or after the right time."""
    step_clock(scene.cluster.environment, rng.uniform(-7200, 7200))
    return {}


def moved_storage(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the driver, rename the storage, and `resume` there."""
    cut_off = _cut_off(scene)
    if not scene.kill_driver():
        return None
    trials = "ray::ResourceTrainable"
    scene.wait(lambda: not scene.processes_of(trials, scene.cluster.nodes))
    before = Path(scene.storage)
    scene.is_in(str(before.rename(before.with_name(f"store-{rng.getrandbits(32)}"))))
    scene.resume()
    seen = len(scene.epochs())
    scene.wait(lambda: len(scene.epochs()) > seen or scene.has_ended())
    if before.exists():
        raise RuntimeError(f"files were written to the former storage: {list(before.rglob('*'))}")
    return cut_off


def closed_output(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill the driver; `resume` into a full disk, or a pipe that is closed at some time."""
    cut_off = _cut_off(scene)
    if not scene.kill_driver():
        return None
    before = len(scene.epochs())
    output, reader = Path("/dev/full"), None
    if rng.random() < 0.5:
        output = scene.folder / f"pipe-{rng.getrandbits(32)}"
        os.mkfifo(output)
        reader = os.open(output, os.O_RDONLY | os.O_NONBLOCK)
    here = scene.resume_here("--address", scene.cluster.address, output=output)
    if reader is not None:
        select.select([reader], [], [])  # it has opened the pipe
        time.sleep(rng.uniform(0, 10))
        os.close(reader)
    scene.wait(lambda: len(scene.epochs()) > before + 2 or here.exitcode is not None)
    send_signal(here, signal.SIGINT)
    here.join()
    if here.exitcode not in (0, 130):  # 0 if the sweep has ended before
        raise RuntimeError(f"the driver ended with {here.exitcode}")
    scene.resume()
    return cut_off


def damaged_neighbour(scene: Scene, rng: random.Random) -> CutOff:
    """Add a sweep to the storage in which a folder is in the place of a file."""
    name = f"neighbour-{rng.getrandbits(32)}"
    neighbours = Path(scene.storage) / "sweeps"
    shutil.copytree(scene.store.folder.path, neighbours / name, ignore=_unstable)
    files = ["sweep_id", "identity.json", "answer.json", "mlflow.json", "trials/00000/trial.json"]
    damaged = neighbours / name / rng.choice(files)
    damaged.unlink(missing_ok=True)
    damaged.mkdir(parents=True)
    scene.calsweep("list", "--storage", scene.storage)
    return {}


def any_kill(scene: Scene, rng: random.Random) -> CutOff | None:
    """Kill a trial's process, a node or the driver."""
    return rng.choice([trial_process, node, driver])(scene, rng)


def _trial(scene: Scene, rng: random.Random) -> psutil.Process | None:
    """A process that runs a trial; None if there is none right now."""
    running = scene.processes_of("ray::ResourceTrainable", scene.cluster.nodes)  # title by Tune
    return rng.choice(running) if running else None


def _unstable(folder: str, names: list[str]) -> list[str]:
    """What a running sweep rewrites, and its lock."""
    return [name for name in names if name in ("checkpoints", "driver.lock") or "tmp" in name]


def _cut_off(scene: Scene, pids: set[int] | None = None) -> CutOff:
    """The running trials that are not in their last epoch, with their processes."""
    last = {epoch.trial: epoch for epoch in scene.epochs()}
    return {
        epoch.trial: epoch.pid
        for epoch in last.values()
        if epoch.number < EPOCHS and (pids is None or epoch.pid in pids)
    }
