"""The time budget of a sweep ends while trials run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.errors import SweepFailedError, UserError
from sweeps.search import clock
from sweeps.search.plan import Plan
from sweeps.service.backend import load_records
from sweeps.service.running import resume_sweep, run_sweep
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep

SLOW_NET = """
import time
from torch import nn
from trainables.models import Classifier

class Slow(nn.Flatten):
    def forward(self, inputs):
        time.sleep(0.1)
        return super().forward(inputs)

def slow_net(*, input_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    return Classifier(Slow(), nn.Linear(input_shape[1] * input_shape[2], num_classes))
"""


def epochs_kept(storage: Path) -> int:
    """The latest epoch of a checkpoint in the storage."""
    names = [path.name for path in storage.glob("sweeps/late/trials/*/checkpoints/epoch_*.pt")]
    return max((int(name.split("_")[1].split("-")[0]) for name in names), default=0)


def two_hours_per_epoch(storage: Path) -> Callable[[], float]:
    """A clock for the driver that advances only when an epoch is kept, by two hours."""
    begun = clock.time()
    return lambda: begun + 7200 * epochs_kept(storage)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_runs_when_the_hours_are_over_continues_after_a_resume(
    ray_session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW_NET)
    sweep = make_sweep(
        "late",
        dataset={"name": "digits", "train_samples": 300},
        model={"name": "slow:slow_net"},
        losses=["label_smoothing"],
        training={"epochs": 2000, "batch_size": 64},
        search={"trials": 2, "max_hours": 1},
        scheduler={"name": "none"},
        selection={"finalists": 0},
    )
    storage = str(tmp_path / "store")
    monkeypatch.setattr(clock, "time", two_hours_per_epoch(Path(storage)))
    begun = clock.time()
    spent = r"no trial has finished: search.max_hours = 1 is spent: 0 of 2 trials"
    with pytest.raises(SweepFailedError, match=spent):
        run_sweep(sweep, storage)
    store = SweepStore(storage, "late")
    sweep = store.load_sweep()
    records = load_records(Plan(sweep), store, print)  # with the epochs of their checkpoints
    assert {record.state for record in records} == {"running"}
    assert any(record.epochs for record in records)
    kept = epochs_kept(Path(storage))
    hours = max(record.seconds(0) for record in records) / 2 / 3600  # as the trials measured them
    with pytest.raises(SweepFailedError, match=r"max_hours = \S+ is spent: 0 of 2 trials"):
        resume_sweep("late", storage, overrides=[f"search.max_hours={hours}"])
    assert epochs_kept(Path(storage)) == kept  # time before the resume counts
    with pytest.raises(UserError, match=r"only budgets can be changed; allowed: search.trials"):
        resume_sweep("late", storage, overrides=["training.epochs=3"])
    with pytest.raises(SweepFailedError, match=spent):
        resume_sweep("late", storage, overrides=["search.max_hours=1"])
    again = load_records(Plan(sweep), store, print)
    assert max(record.epochs for record in again) > max(record.epochs for record in records)
    for before, after in zip(records, again, strict=False):
        assert after.started == before.started >= begun
        assert after.epochs >= before.epochs
