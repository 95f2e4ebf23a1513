"""Parts of a cluster die during a sweep: a short form of ``benchmarks.faults``."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.store.sweep_store import SweepStore
from tests.builders import facts
from tests.harness import faults
from tests.harness import injections as inject
from tests.harness.command import calsweep
from tests.harness.ray_cluster import RayCluster
from tests.harness.scene import Scene

FEW = {"search": {"trials": 6, "sampler": "tpe"}}
LONG_ENOUGH = {"search": {"trials": 30, "sampler": "tpe"}}  # Ray misses a node after 15 s

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with faults.running_cluster() as cluster:
        yield cluster


def in_turn(*those: inject.Fault) -> inject.Fault:
    """Several faults in one sweep; tried again later if one of them has nothing to break yet."""

    def happen(scene: Scene, rng: random.Random) -> inject.CutOff | None:
        cut_off = None
        for each in those:
            cut_off = each(scene, rng)
            if cut_off is None:
                break
        return cut_off

    return happen


KINDS = {
    "storage full, node": faults.Kind(
        in_turn(inject.storage_full, inject.node), LONG_ENOUGH, scarce=True
    ),
    "run deleted, data changed": faults.Kind(
        in_turn(inject.run_deleted, inject.data_changed), FEW, server=True, table=True
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_lost(cluster: RayCluster, name: str) -> None:
    outcome = faults.faulty_sweep(cluster, KINDS[name], random.Random(name), tries=1)
    assert outcome.tries > 0
    assert not outcome.lost
    assert outcome.repeated <= 2 * outcome.tries  # one epoch of each of the two running trials
    if "node" in name:  # its loss is one line, and not Ray's
        assert outcome.said.count("is lost; its trials are retried") == 1
        assert "raylet" not in outcome.said.lower()


def test_trials_leave_a_node_that_drains(cluster: RayCluster) -> None:
    kind = replace(faults.FAULTS["node drained"], sections=FEW)
    outcome = faults.faulty_sweep(cluster, kind, random.Random(1), tries=1)
    assert outcome.tries > 0
    assert not outcome.lost
    assert outcome.repeated == 0  # the trials finish their epochs first


def test_the_same_answer_here_and_on_a_cluster_that_loses_the_driver(
    cluster: RayCluster, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    sections = {"scaling": {"max_concurrent": 1}}
    scene = Scene(cluster, tmp_path, tmp_path / "there", FEW | sections)
    scene.submit()
    scene.wait(lambda: len(scene.epochs()) > 8)
    inject.driver(scene, random.Random(0))
    scene.wait(scene.has_ended)
    assert scene.state() == "SUCCEEDED"
    done = calsweep(tmp_path, "run", "sweep.yaml", "--debug", "--storage", str(here))
    assert done.returncode == 0, done.stderr
    local = SweepStore(str(here), "fragile").load_records()
    assert len(local) == 6
    assert [facts(r) for r in scene.store.load_records()] == [facts(r) for r in local]
