"""Two drivers on one cluster."""

import re
import shutil
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from sweeps.cluster import Announcement
from sweeps.cluster.slots import share_of
from sweeps.errors import UserError
from sweeps.jobs.occupancy import sweeps_on
from sweeps.store.sweep_store import SweepStore
from tests.harness.command import calsweep, exit_code, start_calsweep
from tests.harness.ray_cluster import RayCluster
from tests.harness.scene import LOGGED_LOSS

SWEEP = """
name: {name}
dataset: {{name: digits, train_samples: 200}}
model: {{name: small_cnn, width: 4}}
losses: [{{name: "logged:Logged", space: {{alpha: {{low: 0.5, high: 2}}}}}}]
training: {{epochs: 3, batch_size: 64}}
search: {{trials: 400, sampler: random}}
scheduler: {{name: none}}
selection: {{finalists: 0}}
scaling: {{num_workers: {workers}, priority: {priority}}}
"""


def group(job: int, state: str, sweep: str = "", priority: int = 0) -> dict[str, str]:
    """A row of Ray's table."""
    name = str(Announcement(sweep, priority)) if sweep else ""
    return {"placement_group_id": f"{'0' * 28}{job:08d}", "name": name, "state": state}


@pytest.mark.parametrize(
    ("groups", "share"),
    [
        ([], 8),  # no placement groups
        ([group(1, "CREATED", "a"), group(1, "PENDING")], 8),  # trials of the same sweep wait
        ([group(1, "CREATED", "a"), group(2, "CREATED", "b"), group(2, "CREATED")], 8),
        ([group(1, "CREATED", "a"), group(2, "CREATED", "b"), group(2, "PENDING")], 4),
        ([group(1, "CREATED", "a"), group(2, "CREATED", "b"), group(2, "REMOVED")], 8),
        ([group(1, "CREATED", "a"), group(2, "REMOVED", "b"), group(2, "PENDING")], 8),
        ([group(1, "CREATED", "a"), group(2, "PENDING")], 8),  # not from a sweep
        ([group(n, "CREATED", "abc"[n - 1]) for n in (1, 2, 3)] + [group(3, "RESCHEDULING")], 2),
        ([group(n, "CREATED", str(n)) for n in range(1, 11)] + [group(9, "PENDING")], 1),
        # The first one's priority is lower, higher, and equal to that of one of two others.
        ([group(1, "CREATED", "a"), group(2, "CREATED", "b", 5), group(2, "PENDING")], 0),
        ([group(1, "CREATED", "a"), group(2, "CREATED", "b", 5)], 8),  # which has what it wants
        ([group(1, "CREATED", "a"), group(2, "CREATED", "b", -5), group(2, "PENDING")], 8),
        (
            [group(n, "CREATED", "abc"[n - 1], [0, 0, -1][n - 1]) for n in (1, 2, 3)]
            + [group(n, "PENDING") for n in (2, 3)],
            4,
        ),
    ],
)
def test_a_sweep_shares_while_trials_of_another_wait(
    groups: list[dict[str, str]], share: int
) -> None:
    assert share_of(8, "00000001", groups) == share


def running_trials(url: str) -> dict[str, int]:
    """Running trials by sweep; empty if the dashboard of a busy machine does not answer in time."""
    try:
        return {each.sweep: each.running for each in sweeps_on(url)}
    except UserError:
        return {}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_sweeps_share_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    code = LOGGED_LOSS.format(log=str(tmp_path / "epochs"), variants=0)
    (tmp_path / "logged.py").write_text(code)
    cluster = RayCluster(head_cpus=3, variables={"EPOCH_SECONDS": "1"})  # fewer trials
    place = ("--address", cluster.address, "--storage", str(tmp_path / "store"))

    def run(name: str, workers: int, priority: int = 0) -> BaseProcess:
        text = SWEEP.format(name=name, workers=workers, priority=priority)
        (tmp_path / f"{name}.yaml").write_text(text)
        output = tmp_path / f"{name}.log"
        return start_calsweep(tmp_path, "run", f"{name}.yaml", *place, output=output)

    def stop(driver: BaseProcess) -> None:
        driver.terminate()
        assert exit_code(driver, 120) == 130

    def finished(name: str) -> int:
        records = SweepStore(str(tmp_path / "store"), name).load_records()
        assert {record.state for record in records} <= {"finished", "running"}
        return sum(record.state == "finished" for record in records)

    def wait_for(what: Callable[[], bool]) -> None:
        until = time.monotonic() + 300
        while not what():
            said = {log.name: log.read_text() for log in tmp_path.glob("*.log")}
            assert time.monotonic() < until, (said, listed())
            time.sleep(0.3)

    def listed() -> str:
        return calsweep(tmp_path, "list", "--address", cluster.url).stdout

    def lists(**trials: int) -> bool:
        line = r"{} +[0-9a-f]+ +running +\S+ \S+ +{} +\d+"
        said = listed()
        return all(re.search(line.format(*each), said) for each in trials.items())

    def running(**trials: int) -> bool:
        return running_trials(cluster.url) == trials

    try:
        assert listed() == "no sweep runs or waits on this cluster\n"
        single = run("single", workers=1)
        wait_for(lambda: running(single=3))  # alone, it uses the whole cluster
        several = run("several", workers=2)
        wait_for(lambda: running(several=1, single=1))
        wait_for(lambda: lists(several=1, single=1))
        before = finished("several"), finished("single")
        wait_for(lambda: finished("several") > before[0] and finished("single") > before[1])
        stop(several)
        wait_for(lambda: running(single=3))
        urgent = run("urgent", workers=1, priority=1)
        wait_for(lambda: running(urgent=3, single=0))
        before = finished("urgent"), finished("single")
        wait_for(lambda: finished("urgent") > before[0] + 3)
        assert finished("single") == before[1]  # it waits
        stop(urgent)
        wait_for(lambda: running(single=3))
        stop(single)
        wait_for(lambda: not sweeps_on(cluster.url))
    finally:
        cluster.stop()
        shutil.rmtree(cluster.temporary, ignore_errors=True)
