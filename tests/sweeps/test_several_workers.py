"""Trials with two workers each, by Ray Train, on a real Ray."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from rich.console import Console

from sweeps.planning.data import load_data
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import make_stopper
from sweeps.service.course import EndedSweep
from sweeps.service.running import run_sweep
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from tests.harness.interrupting import interrupted, wait_for_cpus
from tests.harness.ray_cluster import RayCluster
from tests.harness.recording_losses import RECORDING, recorded_processes
from tests.harness.workplace import workplace_of
from trainables.contract.config import TrialSetup
from trainables.trials.trial import TrialRun
from trainables.wrappers.ray_internals import release_abandoned_placement_groups

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OWN_LOSSES = """
import os, signal
from pathlib import Path
from torch.nn.functional import cross_entropy
from trainables.runtime.distributed import rank
from trainables.losses import CalibrationLoss

class Broken(CalibrationLoss):
    '''Fails on the second worker.'''
    looks_across_batch = False
    def compute(self, logits, targets, indices, features):
        if rank() == 1:
            raise KeyError("a bug on one worker")
        return cross_entropy(logits, targets)

class Scaled(CalibrationLoss):
    '''Learns for alpha = 1, nothing for 0; kills the second worker once, in its second epoch.'''
    looks_across_batch = False
    def __init__(self, num_classes, alpha=1.0):
        super().__init__(num_classes)
        self.alpha, self.epoch = alpha, 0
    def on_epoch_end(self):
        self.epoch += 1
    def compute(self, logits, targets, indices, features):
        mark = Path(__file__).with_name("died")
        if rank() == 1 and self.epoch == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return cross_entropy(logits, targets) * self.alpha
"""

SEED = 0  # draws alpha = 1 before alpha = 0


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("workplace")
    with workplace_of(folder, own_losses=OWN_LOSSES, recording=RECORDING):
        yield folder


def sweep_of(**sections: Any) -> SweepFile:
    return parse_sweep(
        {
            "name": "several",
            "dataset": {"name": "digits", "train_samples": 300},
            "model": {"name": "small_cnn", "width": 8},
            "losses": [
                "own_losses:Broken",
                {"name": "own_losses:Scaled", "space": {"alpha": {"choices": [1.0, 0.0]}}},
            ],
            "training": {
                "epochs": 3,
                "batch_size": 64,
                "lr": 0.05,
                "augmentation": "none",
                "sync_batch_norm": True,
            },
            "search": {"trials": 4, "sampler": "random", "seed": SEED},
            "scheduler": {"grace_period": 1, "reduction_factor": 2},
            "selection": {"finalists": 0},
            "scaling": {"num_workers": 2},
            **sections,
        }
    )


@pytest.fixture(scope="module")
def result(workplace: Path) -> EndedSweep:
    return run_sweep(sweep_of(), str(workplace / "store"), console=Console(quiet=True))


def with_alpha(result: EndedSweep, alpha: float) -> list[TrialRecord]:
    return [r for r in result.records if r.hyperparameters.get("alpha") == alpha]


def test_two_workers_give_what_one_gives(workplace: Path, result: EndedSweep) -> None:
    sweep = sweep_of()
    setup = TrialSetup(
        model=sweep.model.name,
        model_options=sweep.model.options,
        training=sweep.training.config(),
        trials_uri=str(workplace / "alone"),
        outcome_epochs=(*make_stopper(Plan(sweep)).rungs, sweep.training.epochs),
    )
    baseline = result.records[0]
    alone = TrialRun(load_data(sweep), setup, replace(baseline.config, number=0))
    for entry in baseline.history:
        alone.advance()
        expected = alone.history[-1]
        for name in ("train_loss", "lr", "val_nll", "val_brier"):
            assert entry[name] == pytest.approx(expected[name], rel=1e-3), name
        assert entry["val_error"] == expected["val_error"]
    assert baseline.outcome["test_nll"] == pytest.approx(expected["test_nll"], rel=1e-3)


def test_a_trial_that_loses_a_worker_continues_from_its_checkpoint(
    workplace: Path, result: EndedSweep
) -> None:
    assert (workplace / "died").exists()
    (record,) = with_alpha(result, 1.0)
    assert record.state == "finished"
    assert [entry["epoch"] for entry in record.history] == [1, 2, 3]


def test_a_fault_on_one_worker_fails_the_trial_with_its_reason(result: EndedSweep) -> None:
    (record,) = (r for r in result.records if r.loss == "own_losses:Broken")
    assert record.state == "failed"
    assert record.reason == "KeyError: 'a bug on one worker'"


def test_a_stopped_trial_releases_its_workers(result: EndedSweep) -> None:
    (record,) = with_alpha(result, 0.0)
    assert (record.state, record.epochs) == ("stopped", 2)  # after epoch 1 it is at chance level
    wait_for_cpus()


@pytest.fixture
def another_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another Ray on this machine, which a sweep has to leave alone."""
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:1")  # sweeps set it there
    other = RayCluster(dashboard=False)
    yield
    other.stop()


def test_trials_reuse_the_workers_of_ended_trials_and_an_interrupted_sweep_releases_them(
    workplace: Path, another_ray: None
) -> None:
    """While another Ray is on the machine."""
    space = {"alpha": {"choices": [0.0, 1.5]}}  # seconds of a step, in this order
    swept = sweep_of(
        name="cut",
        losses=[{"name": "recording:Lasting", "space": space}],
        search={"trials": 3, "sampler": "random", "seed": SEED},
        scheduler={"name": "none"},
    )
    folder = workplace / "store/sweeps/cut"
    caught = interrupted(
        lambda: run_sweep(swept, str(workplace / "store"), console=Console(quiet=True)),
        folder,
        trials="trials/00002",
    )
    assert "calsweep resume cut" in str(caught.value)
    wait_for_cpus()
    records = SweepStore(str(workplace / "store"), "cut").load_records()
    assert [r.hyperparameters.get("alpha") for r in records] == [None, 0.0, 1.5]
    assert [(r.state, r.epochs) for r in records[:2]] == [("finished", 3)] * 2
    assert records[2].state == "running"
    processes = recorded_processes(workplace)
    assert (len(processes), len(set(processes))) == (2 * 2, 2)


class Maker:
    """Reserves a placement group, like the controller of Ray Train."""

    def make(self) -> Any:
        group = placement_group([{"CPU": 0.1}])
        ray.get(group.ready())
        return group


def test_placement_groups_of_dead_creators_are_released(workplace: Path) -> None:
    actor: Any = ray.remote(num_cpus=0)(Maker)
    makers = [actor.remote() for _ in range(2)]
    left, held = ray.get([maker.make.remote() for maker in makers])
    of_the_driver = placement_group([{"CPU": 0.1}])  # like Tune's for each trial
    ray.get(of_the_driver.ready())
    ray.kill(makers[0])
    until = time.monotonic() + 60
    while placement_group_table(left)["state"] != "REMOVED":
        assert time.monotonic() < until
        release_abandoned_placement_groups()
        time.sleep(0.2)
    for group in (held, of_the_driver):
        assert placement_group_table(group)["state"] == "CREATED"
        remove_placement_group(group)
    ray.kill(makers[1])
