"""`gpus_per_worker: auto` and `precision: auto` on many kinds of machines."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.messages.reporter import Reporter
from sweeps.planning.data import load_data
from sweeps.planning.gpu_share import Gpu, gpu_share, settle_devices, worker_room
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.resources import ScalingSection
from tests.builders import make_sweep
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
        (SMALL, 6, {"CPU": 64, "GPU": 1}, {}, 1 / 6),  # limited by the GPU memory
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
    gpu = Gpu("G", memory * GIB, True)
    assert gpu_share(sweep, workload, gpu, [{"CPU": 4}, node]) == share


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


@dataclass
class Known:
    """Machines of which everything is known."""

    resources: dict[str, float]
    gpu: Gpu | None = None
    has_bfloat16: bool = False
    label: str = "this machine"

    def nodes(self) -> list[dict[str, float]]:
        return [self.resources]

    def weakest_gpu(self, reporter: Reporter) -> Gpu | None:
        return self.gpu

    def cpus_have_bfloat16(self) -> bool:
        return self.has_bfloat16


def settled(sweep: SweepFile, machines: Known) -> tuple[SweepFile, str | None]:
    return settle_devices(sweep, load_data(sweep), machines)


def test_numbers_in_the_sweep_file_stand() -> None:
    sweep = make_sweep(scaling={"gpus_per_worker": 0.5}, training={"precision": "bfloat16"})
    assert settled(sweep, Known({"CPU": 2.0, "GPU": 2.0})) == (sweep, None)


@pytest.mark.parametrize(("bfloat16", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_precision_follows_the_gpus(bfloat16: bool, precision: str) -> None:
    machines = Known({"CPU": 2.0, "GPU": 2.0}, Gpu("T4", 15 * GIB, bfloat16))
    sweep = make_sweep(scaling={"gpus_per_worker": 0.5}, encoder={"training": {"epochs": 2}})
    found, said = settled(sweep, machines)
    assert said is None
    assert found.encoder is not None
    assert {found.training.precision, found.encoder.training.precision} == {precision}
    on_cpus = make_sweep(scaling={"gpus_per_worker": 0})
    assert settled(on_cpus, machines)[0].training.precision == "float32"


@pytest.mark.parametrize(
    ("has_bfloat16", "width", "precision"),
    [(True, 64, "bfloat16"), (False, 64, "float32"), (True, 8, "float32")],
)
def test_precision_follows_the_cpus_and_the_model(
    has_bfloat16: bool, width: int, precision: str
) -> None:
    machines = Known({"CPU": 2.0}, has_bfloat16=has_bfloat16)
    sweep = make_sweep(
        scaling={"gpus_per_worker": 0},
        model={"name": "small_cnn", "width": width},
        encoder={"training": {"epochs": 2}},
    )
    found, said = settled(sweep, machines)
    assert found.encoder is not None
    assert {found.training.precision, found.encoder.training.precision} == {precision}
    assert (said is not None and "training.precision = bfloat16" in said) == (
        precision == "bfloat16"
    )
    asked = make_sweep(scaling={"gpus_per_worker": 0}, training={"precision": "float32"})
    assert settled(asked, machines) == (asked, None)


def test_gpus_that_stay_idle_settle_no_precision() -> None:
    machines = Known({"CPU": 2.0, "GPU": 1.0}, Gpu("H200", 139 * GIB, True))
    found, said = settled(make_sweep(scaling={"num_workers": 2}), machines)
    assert (found.scaling.gpus_per_worker, found.training.precision) == (0.0, "float32")
    assert said == "The cluster has too few GPUs for num_workers; trials train on CPUs."


def test_a_budget_of_gpu_hours_wants_gpus() -> None:
    sweep = make_sweep(search={"max_gpu_hours": 3.0})
    with pytest.raises(UserError, match=r"search.max_gpu_hours = 3 is not allowed .*no GPU"):
        settled(sweep, Known({"CPU": 2.0}))


@pytest.mark.parametrize(
    ("scaling", "nodes", "room"),
    [
        ({}, [{"CPU": 2.0}, {"CPU": 4.0, "GPU": 1.0}, {}], 6),
        ({"cpus_per_worker": 3}, [{"CPU": 5.0}, {"CPU": 4.0}], 2),
        ({"gpus_per_worker": 0.3}, [{"CPU": 16.0, "GPU": 2.0}], 6),
        ({"gpus_per_worker": 2.0}, [{"CPU": 16.0, "GPU": 3.0}], 1),
        ({"gpus_per_worker": 1.0}, [{"CPU": 16.0}], 0),
    ],
)
def test_workers_are_counted_per_node(
    scaling: dict[str, Any], nodes: list[dict[str, float]], room: int
) -> None:
    assert worker_room(ScalingSection(**scaling), nodes) == room


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"cpus_per_worker": 1000}, r"cpus_per_worker = 1000.*this machine has room for 0 such"),
        ({"gpus_per_worker": 64.0}, r"gpus_per_worker = 64.*this machine has room for 0 such"),
        ({"num_workers": 60}, r"num_workers = 60 .*this machine has room for 2 such workers \(1 n"),
    ],
)
def test_a_trial_that_does_not_fit_is_refused(scaling: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        settled(make_sweep(scaling=scaling), Known({"CPU": 2.0}))
