"""Trials with two workers each, by Ray Train, on a real Ray."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from rich.console import Console

from sweeps.errors import SweepFailedError
from sweeps.planning.data import load_data
from sweeps.search import trial_queue
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import make_stopper
from sweeps.service.running import run_sweep
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from tests.harness.forks import worker_server
from tests.harness.interrupting import interrupted, wait_for_cpus
from tests.harness.ray_cluster import RayCluster
from tests.harness.recording_losses import RECORDING, recorded_processes
from tests.harness.workplace import workplace_of
from trainables.contract.config import TrialSetup
from trainables.trials.trial import TrialRun
from trainables.wrappers.forked_workers import ADDRESS
from trainables.wrappers.ray_internals import release_abandoned_placement_groups

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OWN_LOSSES = """
import os, signal, time
from pathlib import Path
from recording import Recording
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

class Scaled(Recording):
    '''Learns, but nothing for alpha = 0. For 1, kills the second worker once, in its second epoch.
    For 1.5, each step lasts that many seconds.
    '''
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
        if self.alpha == 1.5:
            time.sleep(self.alpha)
        return cross_entropy(logits, targets) * self.alpha
"""

CANNOT_IMPORT = """
import sys

class Finder:
    # Planted in all processes of Ray: those that are to train cannot import their class.
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe()
        while frame is not None and name == "ray.train.v2._internal.execution.worker_group.worker":
            for value in frame.f_locals.values():
                if "RayTrainWorker" in str(getattr(value, "class_name", "")):
                    raise ImportError("libfoo.so.3: cannot open shared object file")
            frame = frame.f_back

sys.meta_path.insert(0, Finder())
"""
ONE_TRIAL = {
    "name": "one",
    "dataset": {"name": "digits", "train_samples": 200},
    "model": {"name": "mlp"},
    "losses": ["focal"],
    "training": {"epochs": 1},
    "search": {"trials": 1},
    "selection": {"finalists": 0, "seeds": 0},
    "scaling": {"num_workers": 2},
    "reference": "none",
}
SEED = 14  # draws alpha = 1, 0 and 1.5 in this order


@pytest.fixture(scope="module")
def another_ray() -> Iterator[None]:
    """Another Ray on this machine, which a sweep has to leave alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:1")  # sweeps set it there
        other = RayCluster(dashboard=False)
        yield
        other.stop()


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("workplace")
    with workplace_of(folder, own_losses=OWN_LOSSES, recording=RECORDING):
        yield folder


SWEEP = parse_sweep(
    {
        "name": "several",
        "dataset": {"name": "digits", "train_samples": 300},
        "model": {"name": "small_cnn", "width": 8},
        "losses": [
            "own_losses:Broken",
            {"name": "own_losses:Scaled", "space": {"alpha": {"choices": [1.0, 0.0, 1.5]}}},
        ],
        "training": {
            "epochs": 3,
            "batch_size": 64,
            "lr": 0.05,
            "augmentation": "none",
            "sync_batch_norm": True,
        },
        "search": {"trials": 5, "sampler": "random", "seed": SEED},
        "scheduler": {"grace_period": 1, "reduction_factor": 2},
        "selection": {"finalists": 0},
        "scaling": {"num_workers": 2},
    }
)


@pytest.fixture(scope="module")
def records(workplace: Path, another_ray: None) -> list[TrialRecord]:
    """Of a sweep that was interrupted in its last trial."""
    storage = str(workplace / "store")
    caught = interrupted(
        lambda: run_sweep(SWEEP, storage, console=Console(quiet=True)),
        workplace / "store/sweeps/several",
        trials="trials/00004",
    )
    assert "calsweep resume several" in str(caught.value)
    return SweepStore(storage, "several").load_records()


def with_alpha(records: list[TrialRecord], alpha: float) -> TrialRecord:
    (record,) = (r for r in records if r.hyperparameters.get("alpha") == alpha)
    return record


def test_two_workers_give_what_one_gives(workplace: Path, records: list[TrialRecord]) -> None:
    setup = TrialSetup(
        model=SWEEP.model.name,
        model_options=SWEEP.model.options,
        training=SWEEP.training.config(),
        trials_uri=str(workplace / "alone"),
        outcome_epochs=(*make_stopper(Plan(SWEEP)).rungs, SWEEP.training.epochs),
    )
    baseline = records[0]
    alone = TrialRun(load_data(SWEEP), setup, replace(baseline.config, number=0))
    for entry in baseline.history:
        alone.advance()
        expected = alone.history[-1]
        for name in ("train_loss", "lr", "val_nll", "val_brier"):
            assert entry[name] == pytest.approx(expected[name], rel=1e-3), name
        assert entry["val_error"] == expected["val_error"]
    assert baseline.outcome["test_nll"] == pytest.approx(expected["test_nll"], rel=1e-3)


def test_a_trial_that_loses_a_worker_continues_from_its_checkpoint(
    workplace: Path, records: list[TrialRecord]
) -> None:
    assert (workplace / "died").exists()
    record = with_alpha(records, 1.0)
    assert record.state == "finished"
    assert [entry["epoch"] for entry in record.history] == [1, 2, 3]


def test_a_fault_on_one_worker_fails_the_trial_with_its_reason(records: list[TrialRecord]) -> None:
    (record,) = (r for r in records if r.loss == "own_losses:Broken")
    assert record.state == "failed"
    assert record.reason == "KeyError: 'a bug on one worker'"


def test_a_trial_is_stopped_early(records: list[TrialRecord]) -> None:
    record = with_alpha(records, 0.0)
    assert (record.state, record.epochs) == ("stopped", 2)  # after epoch 1 it is at chance level


def test_trials_reuse_the_workers_of_ended_trials(
    workplace: Path, records: list[TrialRecord]
) -> None:
    assert [r.hyperparameters.get("alpha") for r in records[2:]] == [1.0, 0.0, 1.5]
    first, after_a_death = np.split(np.array(recorded_processes(workplace)), [2])
    assert len(after_a_death) == 2 * 3
    assert len(set(first)) == len(set(after_a_death)) == 2


def test_an_interrupted_sweep_releases_the_workers(records: list[TrialRecord]) -> None:
    """While another Ray is on the machine."""
    assert with_alpha(records, 1.5).state == "running"
    wait_for_cpus()


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


@pytest.mark.usefixtures("without_ray")
def test_workers_that_cannot_start_fail_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray Train would start them again without end."""
    (tmp_path / "sitecustomize.py").write_text(CANNOT_IMPORT)
    monkeypatch.setenv(ADDRESS, worker_server(str(tmp_path)))
    monkeypatch.setattr(trial_queue, "_MAX_DEATHS", 1)  # to start them twice is enough
    said = "the last time by ImportError: libfoo.so.3: cannot open shared object"
    with pytest.raises(SweepFailedError, match=said):
        run_sweep(parse_sweep(ONE_TRIAL), str(tmp_path / "store"))
