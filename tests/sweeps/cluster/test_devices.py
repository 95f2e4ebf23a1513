"""`gpus_per_worker: auto` on many kinds of cluster, and on a real Ray."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from rich.console import Console

import trainables.engine.precision
from sweeps.cluster import connection, devices
from sweeps.cluster.devices import Gpu, gpu_share, settle_devices
from sweeps.cluster.ray_internals import agents_may_be_slow
from sweeps.errors import SweepFailedError, UserError
from sweeps.planning.data import load_data
from sweeps.service.running import run_sweep
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep
from tests.harness.ray_cluster import RayCluster
from trainables.engine.workload import Workload

GIB = 2**30
SMALL = Workload(
    parameters=10**5, saved=10**5, largest=10**5, operations=1e6, layers=20, data=10**7
)
LARGE = Workload(
    parameters=10**8, saved=5 * 10**7, largest=10**6, operations=1e9, layers=60, data=10**8
)


@pytest.mark.parametrize(
    ("workload", "memory", "node", "scaling", "share"),
    [
        (SMALL, 80, {"CPU": 64, "GPU": 4}, {}, 1 / 8),
        (SMALL, 80, {"CPU": 12, "GPU": 4}, {}, 1 / 3),  # limited by the CPUs
        (SMALL, 80, {"CPU": 12, "GPU": 4}, {"cpus_per_worker": 2}, 1.0),
        (SMALL, 6, {"CPU": 64, "GPU": 1}, {}, 1 / 5),  # limited by the GPU memory
        (LARGE, 80, {"CPU": 64, "GPU": 1}, {}, 1.0),  # one trial keeps the GPU busy
        (LARGE, 4, {"CPU": 64, "GPU": 1}, {}, 1.0),
        (SMALL, 80, {"CPU": 8, "GPU": 2}, {"num_workers": 2}, 1.0),
        (SMALL, 80, {"CPU": 8, "GPU": 1}, {"num_workers": 2}, 0.0),  # too few for all workers
    ],
)
def test_shares(
    workload: Workload, memory: int, node: dict[str, float], scaling: dict[str, Any], share: float
) -> None:
    sweep = make_sweep(scaling=scaling)
    assert gpu_share(sweep, workload, Gpu("G", memory * GIB, True), [{"CPU": 4}, node]) == share


def test_two_views_take_twice_the_memory() -> None:
    encoder = {"loss": "supcon", "training": {"batch_size": 128}}
    shares = [
        gpu_share(
            make_sweep(model={"name": "small_cnn"}, **sections),
            replace(LARGE, operations=1.0),
            Gpu("G", 40 * GIB, True),
            [{"CPU": 64, "GPU": 1}],
        )
        for sections in ({"encoder": encoder}, {"training": {"batch_size": 256}}, {})
    ]
    assert shares[0] == shares[1] > shares[2]


@pytest.fixture(scope="module")
def fake_gpus(without_ray: None) -> Iterator[None]:
    """A Ray that is configured with two GPUs that do not exist."""
    with agents_may_be_slow():
        ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_number_in_the_sweep_file_stands(fake_gpus: None) -> None:
    sweep = make_sweep(scaling={"gpus_per_worker": 0.5}, training={"precision": "bfloat16"})
    assert settle_devices(sweep, load_data(sweep)) == (sweep, None)


def test_auto_takes_the_gpus_of_the_cluster(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray's workers import modules unpatched, but Ray pickles this function by value.
    monkeypatch.setattr(devices, "_look", lambda: ("H200", 139 * 2**30, True))
    sweep, said = settle_devices(make_sweep(), load_data(make_sweep()))
    assert sweep.scaling.gpus_per_worker == 1.0  # two CPUs and two GPUs
    assert said == "scaling.gpus_per_worker = 1: each worker gets a GPU (H200, 139 GiB)"
    assert connection.concurrent_trials(sweep.scaling) == 2
    assert sweep.training.precision == "bfloat16"


@pytest.mark.parametrize("share", ["auto", 0.5])
def test_gpus_that_other_sweeps_occupy_are_examined(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch, share: float | str
) -> None:
    """Without waiting for them."""
    monkeypatch.setattr(devices, "_look", lambda: ("H200", 139 * 2**30, True))
    monkeypatch.setattr(devices, "_SECONDS_FOR_A_GPU", 60.0)
    others = ray.util.placement_group([{"GPU": 2, "CPU": 2}])
    ray.get(others.ready())
    try:
        sweep = make_sweep(scaling={"gpus_per_worker": share})
        settled, _ = settle_devices(sweep, load_data(sweep))
    finally:
        ray.util.remove_placement_group(others)
    assert settled.training.precision == "bfloat16"


def test_a_node_that_cannot_be_examined_gives_one_message(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no driver")

    monkeypatch.setattr(devices, "_look", fail)
    with pytest.raises(
        SweepFailedError, match=r"or give scaling.gpus_per_worker and training.prec"
    ):
        settle_devices(make_sweep(), load_data(make_sweep()))


@pytest.mark.parametrize(("bfloat16", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_precision_follows_the_gpus(
    monkeypatch: pytest.MonkeyPatch, bfloat16: bool, precision: str
) -> None:
    monkeypatch.setattr(devices, "all_nodes", lambda: [{"CPU": 2.0, "GPU": 2.0}])
    monkeypatch.setattr(devices, "_weakest_gpu", lambda reporter: Gpu("T4", 15 * GIB, bfloat16))
    sweep = make_sweep(scaling={"gpus_per_worker": 0.5}, encoder={"training": {"epochs": 2}})
    settled, said = settle_devices(sweep, load_data(sweep))
    assert said is None
    assert settled.encoder is not None
    assert {settled.training.precision, settled.encoder.training.precision} == {precision}
    on_cpus = make_sweep(scaling={"gpus_per_worker": 0})
    assert settle_devices(on_cpus, load_data(sweep))[0].training.precision == "float32"


@pytest.mark.parametrize(
    ("has_bfloat16", "width", "precision"),
    [(True, 64, "bfloat16"), (False, 64, "float32"), (True, 8, "float32")],
)
def test_precision_follows_the_cpus_and_the_model(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch, has_bfloat16: bool, width: int, precision: str
) -> None:
    monkeypatch.setattr(trainables.engine.precision, "cpu_has_bfloat16", lambda: has_bfloat16)
    sweep = make_sweep(
        scaling={"gpus_per_worker": 0},
        model={"name": "small_cnn", "width": width},
        encoder={"training": {"epochs": 2}},
    )
    settled, said = settle_devices(sweep, load_data(sweep))
    assert settled.encoder is not None
    assert {settled.training.precision, settled.encoder.training.precision} == {precision}
    assert (said is not None and "training.precision = bfloat16" in said) == (
        precision == "bfloat16"
    )
    asked = make_sweep(scaling={"gpus_per_worker": 0}, training={"precision": "float32"})
    assert settle_devices(asked, load_data(asked)) == (asked, None)


def test_gpus_that_stay_idle_settle_no_precision(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "all_nodes", lambda: [{"CPU": 2.0, "GPU": 1.0}])
    monkeypatch.setattr(devices, "_weakest_gpu", lambda reporter: Gpu("H200", 139 * GIB, True))
    sweep = make_sweep(scaling={"num_workers": 2})
    settled, said = settle_devices(sweep, load_data(sweep))
    assert (settled.scaling.gpus_per_worker, settled.training.precision) == (0.0, "float32")
    assert said == "The cluster has too few GPUs for num_workers; trials train on CPUs."


def test_cpus_that_are_still_to_come_may_be_others(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainables.engine.precision, "cpu_has_bfloat16", lambda: True)
    monkeypatch.setattr(devices, "nodes_to_come", lambda: [{"CPU": 8.0}])
    sweep = make_sweep(scaling={"gpus_per_worker": 0}, model={"name": "small_cnn", "width": 64})
    assert settle_devices(sweep, load_data(sweep))[0].training.precision == "float32"


TWO_NODES = """
import os, sys
import trainables.engine.precision
from sweeps.cluster.connection import connected
from sweeps.cluster.devices import settle_devices
from sweeps.planning.data import load_data
from tests.builders import make_sweep

# Shipped by value, so that each node answers for itself.
trainables.engine.precision.cpu_has_bfloat16 = lambda: os.environ["HAS_BFLOAT16"] == "yes"
sweep = make_sweep(model={"name": "small_cnn", "width": 64})
with connected(sys.argv[1]):
    print(settle_devices(sweep, load_data(sweep))[0].training.precision)
"""


@pytest.mark.slow
def test_every_node_is_asked_for_its_precision() -> None:
    cluster = RayCluster(head_cpus=1, variables={"HAS_BFLOAT16": "yes"})
    try:
        for has_bfloat16, precision in (("yes", "bfloat16"), ("no", "float32")):
            cluster.of_nodes = {"HAS_BFLOAT16": has_bfloat16}
            cluster.add_node()
            assert cluster.run(TWO_NODES).splitlines()[-1] == precision
    finally:
        cluster.stop()


def test_gpus_that_torch_cannot_use_are_reported_and_not_used(fake_gpus: None) -> None:
    sweep, said = settle_devices(make_sweep(), load_data(make_sweep()))
    assert sweep.scaling.gpus_per_worker == 0.0
    assert sweep.training.precision == "float32"
    assert said is not None and "that its PyTorch cannot use" in said


@pytest.mark.slow
def test_a_budget_of_gpu_hours_wants_gpus(fake_gpus: None) -> None:
    sweep = make_sweep(search={"max_gpu_hours": 3.0})
    with pytest.raises(UserError, match=r"search.max_gpu_hours = 3 is not allowed .*no GPU"):
        settle_devices(sweep, load_data(sweep))


@pytest.mark.slow
def test_trials_use_the_gpu_that_ray_gave_them(fake_gpus: None, tmp_path: Path) -> None:
    sweep = make_sweep("given", scaling={"gpus_per_worker": 0.5}, search={"trials": 2})
    with pytest.raises(SweepFailedError, match=r"CUDA|NVIDIA"):
        run_sweep(sweep, str(tmp_path), console=Console(quiet=True))


@pytest.mark.slow
def test_what_was_settled_is_kept_with_the_sweep(fake_gpus: None, tmp_path: Path) -> None:
    sweep = make_sweep(
        "kept", training={"epochs": 1}, search={"trials": 1}, selection={"finalists": 0}
    )
    run_sweep(sweep, str(tmp_path), console=Console(quiet=True))
    kept = SweepStore(str(tmp_path), "kept").load_sweep()
    assert (kept.scaling.gpus_per_worker, kept.training.precision) == (0.0, "float32")
