"""A sweep on a cluster: actions on it, and its results."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
from mlflow import MlflowClient
from mlflow.entities import Run

from sweeps.errors import UserError
from sweeps.jobs.jobs import find_job, logs
from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import dump_sweep, parse_sweep
from sweeps.tracking.address import check_answers, tracking_uri
from tests.harness.command import calsweep, start_calsweep
from tests.harness.forks import FORKS, act_as_started, end_with_tests
from tests.harness.lost_replies import LossyProxy
from tests.harness.ray_cluster import Node, RayCluster, free_port
from tests.harness.webhook import Webhook

EPOCHS = 6
ARTIFACTS = {"checkpoint.pt", "predictions_validation.parquet", "reliability.svg", "sweep.yaml"}
_TIMEOUT_SECONDS = 900
LOGGED_LOSS = '''
import os, time
import torch
from torch.nn.functional import cross_entropy
from trainables.runtime.distributed import rank
from trainables.losses import CalibrationLoss

LOG = {log!r}

def obey():
    """What a fault wants of this process, or of those of a node."""
    while os.path.exists(f"{{LOG}}.hang-{{os.getpid()}}"):
        time.sleep(0.05)
    eaten = []
    while os.path.exists(f"{{LOG}}.eat-{{os.getpid()}}"):
        eaten.append(bytearray(b"x") * 2**24)
    if os.path.exists(LOG + ".broken"):
        import ray
        if ray.get_runtime_context().get_node_id() in open(LOG + ".broken").read():
            raise OSError("the disk of this node is gone")

class Logged(CalibrationLoss):
    """Writes down each epoch: when, by which process, of which trial (its loss and alpha).

    An epoch takes a moment, or none once there is a file beside the log.
    """
    looks_across_batch = False
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.alpha = alpha
        self.register_buffer("epoch", torch.zeros((), dtype=int))
    def on_epoch_end(self):
        until = time.monotonic() + float(os.environ.get("EPOCH_SECONDS", 0.3))
        while time.monotonic() < until and not os.path.exists(LOG + ".quick"):
            time.sleep(0.05)
        obey()
        self.epoch += 1
        if rank() == 0:
            with open(LOG, "a") as stream:
                trial = f"{{type(self).__name__}}:{{self.alpha}}"
                print(time.time(), os.getpid(), trial, int(self.epoch), file=stream)
    def compute(self, logits, targets, indices, features):
        return cross_entropy(logits, targets) * self.alpha

for number in range({variants}):  # further losses, which do the same
    globals()[f"Logged{{number}}"] = type(f"Logged{{number}}", (Logged,), {{}})
'''
VARIANTS = 8


@dataclass(frozen=True)
class Epoch:
    """A trained epoch.

    Attributes:
        when: Seconds since the epoch.
        pid: Id of the process.
        trial: Identifies the trial.
        number: From 1.
    """

    when: float
    pid: int
    trial: str
    number: int


def logged_loss(variant: int | str) -> dict[str, Any]:
    """The section of the loss in ``logged.py``, or of one of its variants."""
    space = {"alpha": {"low": 0.5, "high": 2.0}}
    return {"name": f"logged:Logged{variant}", "space": space}


class MlflowServer:
    """``mlflow server``, which can be killed and restarted.

    Args:
        database: Its SQLAlchemy URI.
        artifacts: A folder or URI.
        options: Further ones of the command.
        environment: Further variables.
        scheme: ``https`` where the options say how.
    """

    def __init__(
        self,
        database: str,
        artifacts: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] = {},
        scheme: str = "http",
    ) -> None:
        self._port = free_port()
        places = ("--backend-store-uri", database, "--artifacts-destination", artifacts)
        self._options = (*places, *options)
        self._environment = environment
        self.uri = f"{scheme}://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ("server", "--workers", "1", "--port", str(self._port), *self._options)
        environment = {**os.environ, **self._environment}
        self._process = FORKS.Process(target=_mlflow, args=(words, environment), daemon=True)
        self._process.start()
        deadline = time.monotonic() + 240
        while True:
            with suppress(UserError):
                check_answers(self.uri)
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"mlflow server does not answer at {self.uri}")
            time.sleep(0.3)

    def kill(self) -> None:
        """SIGKILL it with its workers."""
        self._process.kill()
        self._process.join()


def _mlflow(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """The code of the server: the command ``mlflow``, and uvicorn in the same process."""
    act_as_started(environment, [Path(os.devnull)] * 3)
    end_with_tests()
    import mlflow.server
    import uvicorn
    from mlflow.cli import cli

    def serve(command: list[str], extra_env: Mapping[str, str], **_: object) -> None:
        os.environ.update(extra_env)
        uvicorn.main(command[command.index("uvicorn") + 1 :])

    mlflow.server._exec_cmd = serve
    cli(words)


class Scene:
    """A sweep on a cluster, with actions on both.

    Args:
        cluster: The cluster.
        folder: An empty folder, the user's.
        store: Where the sweep store is to be.
        sections: Of the sweep file, in place of the usual ones.
        server: Of MLflow; None for SQLite.
        proxy: Before that server, if any.
        webhook: That the sweep file names, if any.
    """

    def __init__(
        self,
        cluster: RayCluster,
        folder: Path,
        store: Path | str,
        sections: dict[str, Any],
        server: MlflowServer | None = None,
        proxy: LossyProxy | None = None,
        webhook: Webhook | None = None,
    ) -> None:
        self.cluster, self.folder = cluster, folder
        self.server, self.proxy, self.webhook = server, proxy, webhook
        self.deleted: set[int] = set()  # trials whose MLflow runs were deleted
        self.is_in(str(store))
        self.log = folder / "epochs.log"
        self.log.touch()
        (folder / "logged.py").write_text(LOGGED_LOSS.format(log=str(self.log), variants=VARIANTS))
        self.sweep = parse_sweep(
            {
                "name": "fragile",
                "dataset": {"name": "digits", "train_samples": 200},
                "model": {"name": "small_cnn", "width": 4},
                "losses": [logged_loss("")],
                "training": {"epochs": EPOCHS, "batch_size": 64, "lr": 0.05},
                "search": {"sampler": "tpe", "trials": 10},
                "scheduler": {"name": "none"},
                "selection": {"finalists": 0},
                **sections,
            }
        )
        (folder / "sweep.yaml").write_text(dump_sweep(self.sweep))

    def is_in(self, storage: str) -> None:
        """The storage is there, from now on."""
        self.storage = storage
        self.store = SweepStore(storage, "fragile")
        self._place = ("--address", self.cluster.url, "--storage", storage)

    def quickly(self) -> None:
        """Further epochs take no longer than their training."""
        self.order("quick").touch()

    def order(self, what: str) -> Path:
        """The file that tells running trials to do something, see ``obey``."""
        return self.log.with_suffix(f".log.{what}")

    def calsweep(self, *arguments: str) -> str:
        """Run a command and return its output.

        Raises:
            RuntimeError: It failed.
        """
        done = calsweep(self.folder, *arguments, environment=self.cluster.environment)
        if done.returncode != 0:
            raise RuntimeError(f"calsweep {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self) -> None:
        """Submit the sweep to the cluster."""
        printed = self.calsweep("submit", "sweep.yaml", *self._place)
        self.job = printed.splitlines()[-1]

    def resume(self) -> None:
        """Resume the sweep as a job."""
        printed = self.calsweep("resume", "fragile", *self._place)
        self.job = printed.splitlines()[-1]

    def sync(self) -> None:
        """Bring MLflow up to date."""
        self.calsweep("sync", "fragile", "--storage", self.storage)

    def state(self) -> str:
        """State of the job."""
        return find_job(self.job, self.cluster.url).state

    def said(self) -> str:
        """Output of the job."""
        url = self.cluster.url
        return "".join(logs(find_job(self.job, url), url, follow=False))

    def wait(self, until: Callable[[], bool], seconds: float = _TIMEOUT_SECONDS) -> None:
        """Wait for something.

        Raises:
            TimeoutError: It does not happen.
        """
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                raise TimeoutError(self.said())
            time.sleep(0.3)

    def has_ended(self) -> bool:
        """Whether the job ended; a dashboard that does not answer in time is asked again later."""
        with suppress(UserError):
            return self.state() in ("SUCCEEDED", "FAILED", "STOPPED")
        return False

    def epochs(self) -> list[Epoch]:
        """All epochs trained so far."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [Epoch(float(when), int(pid), trial, int(n)) for when, pid, trial, n in lines]

    def drivers(self) -> list[psutil.Process]:
        """The process of ``calsweep run`` or ``resume`` on the cluster, if any."""
        return [process for process in self.cluster.head.processes() if _is_driver(process)]

    def kill_driver(self) -> bool:
        """Kill the driver (SIGKILL); returns whether there was one."""
        drivers = self.drivers()
        for process in drivers:
            process.kill()
        self.wait(self.has_ended)
        return bool(drivers)

    def resume_here(self, *more: str, output: Path | None = None) -> BaseProcess:
        """Resume the sweep with a driver that is not a job.

        Its output is in ``here.log``, or goes to another file.
        """
        words = ("resume", "fragile", "--storage", self.storage, *more)
        log = self.folder / "here.log"
        log.unlink(missing_ok=True)
        log.touch()
        return start_calsweep(
            self.folder, *words, output=output or log, environment=self.cluster.environment
        )

    def wait_here(self, driver: BaseProcess, until: Callable[[], bool]) -> None:
        """Wait for a condition while a driver of :meth:`resume_here` runs.

        Raises:
            RuntimeError: It ended before.
        """
        self.wait(lambda: until() or driver.exitcode is not None)
        if not until():
            raise RuntimeError((self.folder / "here.log").read_text())

    def finished(self) -> dict[int, TrialRecord]:
        """Records of the trials that ended normally, by number."""
        return {r.number: r for r in self.store.load_records() if r.state == "finished"}

    def tracked(self) -> set[int]:
        """Numbers of the trials with all epochs and artifacts in MLflow."""
        client, runs = self.runs()
        number_of = {run.info.run_id: int(run.data.tags["calsweep.trial"]) for run in runs}
        runs_of = Counter(number_of.values())
        return {
            number_of[run.info.run_id]
            for run in runs
            if run.info.status == "FINISHED"
            and runs_of[number_of[run.info.run_id]] == 1
            and len(client.get_metric_history(run.info.run_id, "val_nll")) == EPOCHS
            and {file.path for file in client.list_artifacts(run.info.run_id)} >= ARTIFACTS
        }

    def runs(self, name: str = "fragile") -> tuple[MlflowClient, list[Run]]:
        """The MLflow client, and the runs of a sweep's trials."""
        client = MlflowClient(tracking_uri(self.storage, self.sweep.tracking.uri))
        experiments = [e.experiment_id for e in client.search_experiments()]
        own = f"tags.`calsweep.trial` LIKE '%' and tags.`calsweep.sweep` = '{name}'"
        return client, list(client.search_runs(experiments, own, max_results=1000))

    def processes_of(self, title: str, nodes: list[Node]) -> list[psutil.Process]:
        """Ray's processes with this title."""
        return [p for node in nodes for p in node.processes() if title in _title(p)]


def _title(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _is_driver(process: psutil.Process) -> bool:
    words = _title(process).split()
    return words[1:3] == ["-m", "sweeps.cli"]  # after the change to its copy of the files
