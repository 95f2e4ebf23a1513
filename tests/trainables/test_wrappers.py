"""What the workers of a trial tell, without Ray."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainables.report import Failed, Progressed, Report, TrialConfig, Waits
from trainables.wrappers import worker
from trainables.wrappers.worker import Order, TrialFailedError, Work, run_worker

FIRST, SECOND = (Order(trial, TrialConfig(trial, "search", "focal", {}, 0)) for trial in (1, 2))
DONE = Progressed(({"epoch": 1.0},), done=True)


class Mailed:
    """In place of the actor: orders of one worker, and what it tells."""

    def __init__(self, *orders: Order | None) -> None:
        self.told: list[Report | None] = []
        left = iter(orders)
        self.next_order = SimpleNamespace(remote=lambda rank: next(left))
        self.tell = SimpleNamespace(remote=self.told.append)


def work(
    monkeypatch: pytest.MonkeyPatch, mail: Mailed, runs: dict[int, list[Report]], rank: int = 0
) -> list[int]:
    """Have a worker do what is ordered; the numbers of trials whose runs it made, and closed."""
    made: list[int] = []

    def make_run(dataset: Any, setup: Any, config: TrialConfig, device: torch.device) -> Any:
        made.append(config.number)
        reports = iter(runs[config.number])
        return SimpleNamespace(
            advance=lambda: next(reports), close=lambda: made.append(-config.number)
        )

    monkeypatch.setattr("trainables.trial.make_run", make_run)
    monkeypatch.setattr("torch.distributed.get_rank", lambda: rank)
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: None)
    monkeypatch.setattr(worker.ray, "get", lambda reference: reference)
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_TRIES", 0.0)
    setup: Any = None
    run_worker({"work": Work(None, setup, False, mail)})
    return made


def test_a_worker_trains_one_trial_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    mail = Mailed(FIRST, FIRST, SECOND, None)
    assert work(monkeypatch, mail, {1: [DONE, DONE], 2: [DONE]}) == [1, -1, 2, -2]
    assert mail.told == [DONE] * 3


def test_a_worker_that_cannot_write_says_so_and_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = Waits("the disk is full")
    mail = Mailed(FIRST, None)
    work(monkeypatch, mail, {1: [full, full, DONE]})
    assert mail.told == [full, full, DONE]
    mail = Mailed(FIRST, None)
    work(monkeypatch, mail, {1: [full, DONE]}, rank=1)
    assert mail.told == [full]  # of epochs the first worker tells


def test_all_workers_end_where_one_cannot_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    mail = Mailed(FIRST, FIRST)
    with pytest.raises(TrialFailedError) as failed:
        work(monkeypatch, mail, {1: [Failed("diverged")]})
    assert Failed(*failed.value.args) == Failed("diverged")
    assert mail.told == []
