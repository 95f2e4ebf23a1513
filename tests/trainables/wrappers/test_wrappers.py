"""Reports of the workers of a trial, without Ray."""

import math
import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainables.contract.messages import Failed, Progressed, Report, TrialConfig, Waiting, from_tune
from trainables.contract.setting import Setting
from trainables.runtime.devices import DeviceFailedError
from trainables.wrappers import one_process, worker
from trainables.wrappers.one_process import TuneTrial
from trainables.wrappers.worker import Order, TrialFailedError, Work, run_worker

FIRST, SECOND = (
    Order(trial, TrialConfig(trial, "search", Setting("focal", {}), 0)) for trial in (1, 2)
)
DONE = Progressed(({"epoch": 1.0},), done=True)


class Mailed:
    """Replaces the actor: orders of one worker, and its reports."""

    def __init__(self, *orders: Order | None) -> None:
        self.reports: list[Report | None] = []
        left = iter(orders)
        self.next_order = SimpleNamespace(remote=lambda rank: next(left))
        self.tell = SimpleNamespace(remote=self.reports.append)


def work(
    monkeypatch: pytest.MonkeyPatch, mail: Mailed, runs: dict[int, list[Any]], rank: int = 0
) -> list[int]:
    """Run the orders of a worker; returns the numbers of created and closed trials."""
    made: list[int] = []

    def make_run(dataset: Any, setup: Any, config: TrialConfig, device: torch.device) -> Any:
        made.append(config.number)
        reports = iter(runs[config.number])
        return SimpleNamespace(
            advance=lambda: r() if callable(r := next(reports)) else r,
            close=lambda: made.append(-config.number),
        )

    monkeypatch.setattr("trainables.trials.making.make_run", make_run)
    monkeypatch.setattr("torch.distributed.get_rank", lambda: rank)
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: None)
    monkeypatch.setattr(worker.ray, "get", lambda reference: reference)
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_TRIES", 0.0)
    setup: Any = SimpleNamespace(threads=1)
    run_worker({"work": Work(None, setup, False, mail)})
    return made


def test_a_worker_trains_one_trial_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    mail = Mailed(FIRST, FIRST, SECOND, None)
    assert work(monkeypatch, mail, {1: [DONE, DONE], 2: [DONE]}) == [1, -1, 2, -2]
    assert mail.reports == [DONE] * 3


def test_a_worker_that_cannot_write_says_so_and_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = Waiting("the disk is full")
    mail = Mailed(FIRST, None)
    work(monkeypatch, mail, {1: [full, full, DONE]})
    assert mail.reports == [full, full, DONE]
    mail = Mailed(FIRST, None)
    work(monkeypatch, mail, {1: [full, DONE]}, rank=1)
    assert mail.reports == [full]  # only the first worker reports epochs


def test_a_worker_whose_device_failed_counts_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Report:
        raise DeviceFailedError("device-side assert")

    mail = Mailed(FIRST)
    with pytest.raises(DeviceFailedError, match="device-side assert"):
        work(monkeypatch, mail, {1: [lost]})


def actor(monkeypatch: pytest.MonkeyPatch, *advances: Any) -> TuneTrial:
    """The process of trials on a GPU, whose runs end as given by ``advances``."""
    left = iter(advances)
    runs = SimpleNamespace(advance=lambda: next(left)(), close=lambda: None)
    monkeypatch.setattr(one_process, "make_run", lambda *_: runs)
    monkeypatch.setattr(one_process.ray, "get_gpu_ids", lambda: ["3"])
    monkeypatch.setattr(TuneTrial, "_asked", math.inf)  # whether the node drains, only Ray knows
    made = TuneTrial.__new__(TuneTrial)
    setup: Any = SimpleNamespace(threads=1)
    made.setup(FIRST.config.to_tune(), dataset=object(), trial_setup=setup)  # type: ignore[arg-type]
    return made


def test_a_process_whose_device_failed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> Any:
        raise error

    made = actor(
        monkeypatch,
        lambda: fail(KeyError("a bug")),
        lambda: fail(DeviceFailedError("device-side assert")),
    )
    assert isinstance(from_tune(made.step()), Failed)
    with pytest.raises(DeviceFailedError):
        made.step()


def test_memory_is_released_between_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[str] = []
    made = actor(monkeypatch)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: released.append("yes"))
    assert made._device == torch.device("cuda", 0)
    made.reset_config(SECOND.config.to_tune())
    assert released == ["yes"]


def test_the_first_of_each_warning_comes_with_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(text: str) -> Report:
        warnings.warn(text, UserWarning, stacklevel=1)
        return DONE

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        made = actor(monkeypatch, *(lambda text=text: warn(text) for text in ("first\nof 2", "b")))
        first, second = from_tune(made.step()), from_tune(made.step())
        mail = Mailed(FIRST, None)
        work(monkeypatch, mail, {1: [lambda: warn("of workers")]})
    assert isinstance(first, Progressed)
    (said,) = first.warnings
    assert re.fullmatch(r"UserWarning: first of 2 \(wrappers/test_wrappers\.py, line \d+\)", said)
    assert second == DONE  # of the same line, whose text may have a number that changes
    (report,) = mail.reports
    assert isinstance(report, Progressed)
    assert report.warnings[0].startswith("UserWarning: of workers (")


def test_all_workers_end_where_one_cannot_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    mail = Mailed(FIRST, FIRST)
    with pytest.raises(TrialFailedError) as failed:
        work(monkeypatch, mail, {1: [Failed("diverged")]})
    assert Failed(*failed.value.args) == Failed("diverged")
    assert mail.reports == []
