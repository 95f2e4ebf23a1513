"""Messages about silent trials, with a simulated clock and load."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.cluster.silence import Silence
from sweeps.cluster.tune_hooks import QueueCallback
from sweeps.search.trial_queue import TrialQueue
from tests.builders import Noted, make_sweep, new_store, queue_of
from trainables.contract.messages import Progressed, to_tune


class Scene:
    """A watched queue with one running trial and a simulated clock."""

    def __init__(self, folder: Path, load: float = 0.0, **sections: Any) -> None:
        sweep = make_sweep("quiet", training={"epochs": 9}, **sections)
        self.queue: TrialQueue = queue_of(sweep, new_store(folder, sweep))
        self.said: list[str] = []
        self.now, self.load = 0.0, load
        self.silence = Silence(self.queue, Noted(self.said), lambda: self.now, lambda: self.load)
        self.callback = QueueCallback(self.queue, reporter=Noted(self.said))
        self.callback._silence = self.silence
        record = self.queue.next()
        assert record is not None
        self.trial: Any = SimpleNamespace(
            config={"number": record.number}, trial_id="a", last_result={}, error_file=None
        )

    def wait(self, seconds: float) -> list[str]:
        """Advances the clock; returns the messages."""
        before = len(self.said)
        for _ in range(round(seconds)):
            self.now += 1
            self.callback.on_step_end(0, [])
        return self.said[before:]

    def start(self) -> None:
        self.callback.on_trial_start(0, [], self.trial)

    def report(self, epoch: int) -> None:
        entry = {"epoch": epoch, "timestamp": 1.0, "val_nll": 1.0, "val_error": 0.5}
        result = to_tune(Progressed((entry,), done=False))
        self.callback.on_trial_result(0, [], self.trial, result)


def test_a_trial_without_a_process_is_reported_after_a_minute(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.wait(59) == []
    (said,) = scene.wait(10)
    assert said.startswith("trial 0 (cross_entropy) has reported nothing for 6")
    assert said.endswith(" s: it is waiting for its process, which starts and imports PyTorch")
    assert scene.wait(50) == []
    (again,) = scene.wait(20)  # after twice the time
    assert "nothing for 12" in again or "nothing for 13" in again


def test_a_silent_trial_is_reported_with_its_epoch(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.wait(50)
    scene.start()
    assert scene.wait(50) == []  # the process started in time, and the epoch may take a minute
    scene.report(1)
    (said,) = scene.wait(160)
    assert "it is training epoch 2 of 9" in said


def test_long_epochs_are_no_silence(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start()
    scene.wait(200)
    scene.report(1)
    assert scene.wait(590) == []  # three times as long as the longest
    assert len(scene.wait(20)) == 1


def test_a_trial_whose_process_died_waits_for_another(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start()
    scene.wait(30)
    scene.callback.on_trial_error(0, [], scene.trial)
    assert scene.wait(100) == []  # the trial is not running
    scene.queue.next()
    (said,) = scene.wait(70)
    assert "it is waiting for its process" in said


def test_several_workers_may_be_starting(tmp_path: Path) -> None:
    scene = Scene(tmp_path, scaling={"num_workers": 2})
    scene.start()
    (said,) = scene.wait(70)
    assert said.endswith("it is starting its workers, or training epoch 1 of 9")


@pytest.mark.parametrize("each", [0.5, 3.0])
def test_a_busy_machine_is_reported_once(tmp_path: Path, each: float) -> None:
    cpus = os.cpu_count() or 1
    scene = Scene(tmp_path, load=each * cpus)
    said = scene.wait(70)
    if each < 1:
        assert len(said) == 1
        assert "busy" not in said[0]
    else:
        busy = f"load {each * cpus:.1f} on {cpus} CPUs"
        assert said[0] == f"This machine is busy ({busy}): trials may take longer"
        assert said[1].endswith(f"imports PyTorch; this machine is busy ({busy})")
        assert len(said) == 2


def seconds(scene: Scene, epoch: int, each: float) -> None:
    entry = {"epoch": epoch, "timestamp": 1.0, "val_nll": 1.0, "val_error": 0.5}
    result = to_tune(Progressed(({**entry, "training_seconds": each},), done=False))
    scene.callback.on_trial_result(0, [], scene.trial, result)


@pytest.mark.parametrize(("each", "minutes"), [(0.5, 30), (120.0, 60)])
def test_a_trial_that_hangs_fails(tmp_path: Path, each: float, minutes: float) -> None:
    scene = Scene(tmp_path)
    scene.start()
    scene.wait(60 * 60)
    assert scene.queue.live == 1  # how long an epoch takes is not known
    seconds(scene, 1, each)
    scene.wait(60 * minutes - 10)
    assert scene.queue.live == 1
    scene.wait(20)
    (record,) = scene.queue.records
    assert (record.state, record.epochs) == ("failed", 1)
    assert record.reason is not None
    assert f"it hung: no epoch for {minutes:.0f} minutes after epoch 1" in record.reason


def test_time_in_which_the_driver_was_suspended_is_no_silence(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.start()
    seconds(scene, 1, 0.5)
    scene.now += 7200.0
    scene.wait(60)
    assert scene.queue.live == 1


def test_a_trial_that_takes_too_long_fails_once_it_has_a_process(tmp_path: Path) -> None:
    scene = Scene(tmp_path, search={"max_minutes_per_trial": 5})
    scene.wait(900)
    assert scene.queue.live == 1  # it waits for room
    scene.start()
    scene.wait(295)
    assert scene.queue.live == 1
    scene.wait(15)
    (record,) = scene.queue.records
    assert record.reason is not None and "longer than search.max_minutes_per_trial = 5" in (
        record.reason
    )
