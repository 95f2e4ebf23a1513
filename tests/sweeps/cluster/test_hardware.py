"""The GPUs and CPUs of a real Ray, examined for `auto`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from rich.console import Console

import trainables.engine.precision
from sweeps.cluster import connection, hardware
from sweeps.cluster.ray_internals import agents_may_be_slow, workers_forked
from sweeps.cluster.ray_tune import RayTune
from sweeps.errors import SweepFailedError
from sweeps.planning.data import load_data
from sweeps.planning.gpu_share import settle_devices
from sweeps.service.running import run_sweep
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep
from tests.harness.forks import worker_server
from tests.harness.ray_cluster import for_trials_only
from trainables.wrappers.forked_workers import ADDRESS


@pytest.fixture(scope="module")
def fake_gpus(without_ray: None) -> Iterator[None]:
    """A Ray that is configured with two GPUs that do not exist."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ADDRESS, worker_server())
        with for_trials_only(), agents_may_be_slow(), workers_forked():
            ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.mark.any_version
def test_auto_takes_the_gpus_of_the_cluster(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray's workers import modules unpatched, but Ray pickles this function by value.
    monkeypatch.setattr(hardware, "_look", lambda: ("H200", 139 * 2**30, True))
    sweep, said = settle_devices(make_sweep(), load_data(make_sweep()), RayTune())
    assert sweep.scaling.gpus_per_worker == 1.0  # two CPUs and two GPUs
    assert said == "scaling.gpus_per_worker = 1: each worker gets a GPU (H200, 139 GiB)"
    assert connection.concurrent_trials(sweep.scaling) == 2
    assert sweep.training.precision == "bfloat16"


@pytest.mark.any_version
@pytest.mark.parametrize("share", ["auto", 0.5])
def test_gpus_that_other_sweeps_occupy_are_examined(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch, share: float | str
) -> None:
    """Without waiting for them."""
    monkeypatch.setattr(hardware, "_look", lambda: ("H200", 139 * 2**30, True))
    monkeypatch.setattr(hardware, "_SECONDS_FOR_A_GPU", 60.0)
    others = ray.util.placement_group([{"GPU": 2, "CPU": 2}])
    ray.get(others.ready())
    try:
        sweep = make_sweep(scaling={"gpus_per_worker": share})
        settled, _ = settle_devices(sweep, load_data(sweep), RayTune())
    finally:
        ray.util.remove_placement_group(others)
    assert settled.training.precision == "bfloat16"


@pytest.mark.any_version
def test_a_node_that_cannot_be_examined_gives_one_message(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no driver")

    monkeypatch.setattr(hardware, "_look", fail)
    with pytest.raises(
        SweepFailedError, match=r"or give scaling.gpus_per_worker and training.prec"
    ):
        settle_devices(make_sweep(), load_data(make_sweep()), RayTune())


@pytest.mark.any_version
def test_cpus_that_are_still_to_come_may_be_others(
    fake_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainables.engine.precision, "cpu_has_bfloat16", lambda: True)
    monkeypatch.setattr(hardware, "nodes_to_come", lambda: [{"CPU": 8.0}])
    sweep = make_sweep(scaling={"gpus_per_worker": 0}, model={"name": "small_cnn", "width": 64})
    assert settle_devices(sweep, load_data(sweep), RayTune())[0].training.precision == "float32"


@pytest.mark.any_version
def test_gpus_that_torch_cannot_use_are_reported_and_not_used(fake_gpus: None) -> None:
    sweep, said = settle_devices(make_sweep(), load_data(make_sweep()), RayTune())
    assert sweep.scaling.gpus_per_worker == 0.0
    assert sweep.training.precision == "float32"
    assert said is not None and "that its PyTorch cannot use" in said


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
