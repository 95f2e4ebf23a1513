"""What the workers of a trial tell, without Ray."""

from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from trainables.report import Progressed, TrialConfig, Waits, from_tune
from trainables.wrappers import several_workers


def test_a_worker_that_cannot_write_says_so_beside_what_all_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    progressed = Progressed(({"epoch": 1.0},), done=True)
    advances = iter([Waits("the disk is full"), progressed])
    run = SimpleNamespace(advance=lambda: next(advances), close=lambda: None)
    reported: list[dict[str, Any]] = []
    monkeypatch.setattr("trainables.trial.make_run", lambda *_: run)
    monkeypatch.setattr(several_workers.ray, "get", lambda reference: reference)
    monkeypatch.setattr(several_workers.train, "report", reported.append)
    monkeypatch.setattr(several_workers, "SECONDS_BETWEEN_TRIES", 0.0)
    told: SimpleQueue[dict[str, Any]] = SimpleQueue()
    several_workers._run_worker(
        {
            "config": TrialConfig(0, "search", "focal", {}, 0),
            "dataset": None,
            "setup": None,
            "on_gpus": False,
            "reports": told,
        }
    )
    assert from_tune(told.get(block=False)) == Waits("the disk is full")
    assert [from_tune(result) for result in reported] == [progressed]
