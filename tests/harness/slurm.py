"""A real Slurm with one node on this machine; its processes see only each other.

They live in a PID namespace of their own, because `ray stop`, with which a batch script ends,
ends all Ray processes that it sees. It needs Debian's ``slurm-wlm`` and ``munge``, and root.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.harness.ray_cluster import free_port

_PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "unshare", "nsenter")
_SPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
_START = """
set -e
mkdir -p state spool munge
chmod 700 munge
head -c 1024 /dev/urandom > munge/key
chmod 400 munge/key
munged --force --key-file=$PWD/munge/key --socket=$PWD/munge/socket --pid-file=$PWD/munge/pid \
    --log-file=$PWD/munge/log --seed-file=$PWD/munge/seed
slurmctld -c
slurmd
while :; do sleep 1; done  # as the first process bash reaps the others; `sleep` would not
"""
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/node.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=30
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def can_run_slurm() -> bool:
    """Whether this machine meets the requirements."""
    if os.geteuid() != 0 or any(shutil.which(program) is None for program in _PROGRAMS):
        return False
    return subprocess.run([*_SPACE, "true"], capture_output=True, check=False).returncode == 0


class Slurm:
    """A controller and a node with two CPUs.

    Args:
        folder: For its files; its path is short.
    """

    def __init__(self, folder: Path) -> None:
        (folder / "slurm.conf").write_text(
            _CONFIGURATION.format(
                host=socket.gethostname().partition(".")[0],
                folder=folder,
                controller_port=free_port(),
                node_port=free_port(),
            )
        )
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._process = subprocess.Popen(
            [*_SPACE, "bash", "-c", _START], cwd=folder, env=self.environment
        )
        wait(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%t"), 60)

    def ask(self, *command: str) -> str:
        """Output of a Slurm command; empty while the controller does not answer."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    def submit(self, script: str, folder: Path, variables: Mapping[str, str]) -> str:
        """Submit a script with `sbatch` in a folder; returns the job number."""
        done = subprocess.run(
            ["sbatch", "--parsable", script],
            cwd=folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """``RUNNING``, ``COMPLETED`` and so on."""
        words = self.ask("scontrol", "show", "job", job).split()
        return next((w.partition("=")[2] for w in words if w.startswith("JobState=")), "")

    def ends(self, job: str) -> bool:
        """Whether a job has ended; skips the minutes that Slurm delays a requeued job."""
        state = self.state(job)
        if state == "PENDING":
            self.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
        return state in ("COMPLETED", "FAILED", "TIMEOUT")

    def stop(self) -> None:
        """Kill Slurm with all its jobs."""
        self._process.send_signal(signal.SIGKILL)  # the namespace of `unshare` ends with it
        self._process.wait()


def wait(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until the condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.5)
