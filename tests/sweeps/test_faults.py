"""Parts of a cluster die during a sweep: a short form of ``benchmarks.faults``."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from tests.builders import facts
from tests.harness import faults
from tests.harness import injections as inject
from tests.harness.command import exit_code, start_calsweep
from tests.harness.injections import CutOff
from tests.harness.ray_cluster import RayCluster
from tests.harness.scene import EPOCHS, LOGGED_LOSS, Epoch, Scene
from tests.harness.workers import run_workers

# Waiting takes no processor time, as more trials would. Ray misses a node after 15 s otherwise.
VARIABLES = {
    "EPOCH_SECONDS": "6",
    "RAY_health_check_period_ms": "500",
    "HAS_BFLOAT16": "yes",
}
TRIALS = 14
# The settings of a random search depend on no outcome, and so not on which trial ends first.
SECTIONS = {"search": {"trials": TRIALS, "sampler": "random"}}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with faults.running_cluster(variables=VARIABLES) as cluster:
        yield cluster


def drained(scene: Scene, rng: random.Random) -> CutOff | None:
    """A node drains: its trials finish their epochs first, and continue elsewhere."""
    left = inject.drained(scene, rng)

    def latest() -> dict[str, Epoch]:
        return {epoch.trial: epoch for epoch in scene.epochs()}

    def moved() -> CutOff:
        return {trial: pid for trial, pid in left.items() if latest()[trial].pid != pid}

    scene.wait(lambda: all(t in moved() or latest()[t].number == EPOCHS for t in left))
    assert faults.repeated(scene) == 0
    return moved() or None  # the trial was in its last epoch


def losses_said(scene: Scene) -> int:
    """Number of lines that say that a node is lost."""
    return scene.said().count("is lost; its trials are retried")


def lost_node(scene: Scene, rng: random.Random) -> CutOff:
    """A node dies, which is one line of output."""
    before = losses_said(scene)
    cut_off = inject.node(scene, rng)
    scene.wait(lambda: losses_said(scene) > before)
    return cut_off


def test_nothing_is_lost_and_the_answer_is_that_of_one_process(
    cluster: RayCluster, tmp_path: Path
) -> None:
    rng = random.Random(0)
    finished: dict[int, TrialRecord] = {}
    happened: Counter[Callable[..., CutOff | None]] = Counter()

    def happens(fault: Callable[[Scene, random.Random], CutOff | None]) -> CutOff:
        while True:  # an epoch later, if there is nothing to break yet
            assert faults.some_epochs(scene, rng), f"the sweep ended before {fault.__name__}"
            finished.update(scene.finished())
            happened[fault] += 1
            cut_off = fault(scene, rng)
            if cut_off is not None:
                return cut_off

    kind = faults.Kind(inject.node, SECTIONS, scarce=True, server=True, table=True)
    with faults.scene_on(cluster, kind) as scene:
        scene.submit()
        happens(drained)
        happens(inject.storage_full)
        cut_off = happens(lost_node)
        happens(inject.run_deleted)
        assert losses_said(scene) == happened[drained] + happened[lost_node]  # one line each
        killed = happens(inject.data_changed)  # kills the driver
        scene.quickly()
        here = in_one_process(scene, tmp_path)
        outcome = faults.outcome_of(scene, finished, [])
        assert scene.state() == "SUCCEEDED"
        assert not outcome.lost
        assert outcome.repeated <= len(cut_off) + len(killed)
        assert len(finished) < TRIALS
        assert exit_code(here) == 0, (tmp_path / "said.txt").read_text()
        local = SweepStore(str(tmp_path / "here"), "fragile").load_records()
        assert len(local) == TRIALS
        assert [facts(r) for r in scene.store.load_records()] == [facts(r) for r in local]


def in_one_process(scene: Scene, folder: Path) -> BaseProcess:
    """The same sweep without Ray and without faults."""
    code = LOGGED_LOSS.format(log=str(folder / "epochs"), variants=0)
    (folder / "logged.py").write_text(code)
    (folder / "epochs.quick").touch()
    (folder / "sweep.yaml").write_bytes((scene.folder / "sweep.yaml").read_bytes())
    database = f"tracking.uri=sqlite:///{folder}/mlflow.db"
    options = ("--debug", "--storage", str(folder / "here"), "--set", database)
    return start_calsweep(folder, "run", "sweep.yaml", *options, output=folder / "said.txt")


def test_every_node_is_asked_for_its_precision(cluster: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "address").write_text(cluster.address)
    script = Path(__file__).with_name("precision_worker.py")
    assert run_workers(script, tmp_path, count=1) == {"precision": "bfloat16"}
    cluster.of_nodes = {"HAS_BFLOAT16": "no"}
    cluster.add_node()
    assert run_workers(script, tmp_path, count=1) == {"precision": "float32"}
