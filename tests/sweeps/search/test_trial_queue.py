"""A sweep without Ray: the order of trials, and crashes at every step."""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.errors import UserError
from sweeps.search.finalist_plan import Look
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import rule_of
from sweeps.search.space import SearchSpace
from sweeps.search.trial_queue import TrialQueue
from sweeps.store.storage import check_storage
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.terminal.progress import epochs_left
from tests.builders import make_sweep, new_store, queue_of

EPOCHS = 2


def simulated(sections: dict[str, object] | None = None, **search: object) -> SweepFile:
    return make_sweep(
        "simulated",
        training={"epochs": EPOCHS},
        search={"trials": 14, **search},
        **{"selection": {"finalists": 3, "seeds": 2}, **(sections or {})},
    )


def metrics(record: TrialRecord, epoch: int) -> dict[str, float]:
    """An objective with an interior optimum that depends slightly on the seed."""
    x = sum(record.hyperparameters.values()) / 20
    ece = 0.02 + 0.1 * (x - 0.3) ** 2 + 0.001 * math.sin(7 * record.seed + x) + 0.01 / epoch
    return {
        "epoch": epoch,
        "timestamp": 1000.0 + epoch,
        "val_error": 0.1 + 0.02 * x,
        "val_nll": 0.3 + x / 10,
        "val_ece": ece,
        "val_ece_calibrated_high": 0.0265,
    }


def steps(queue: TrialQueue) -> Iterator[None]:
    """Run a sweep with one slot, yielding after everything that changes the store."""
    while not queue.exhausted:
        record = queue.next()
        assert record is not None
        yield
        if record.role == "encoder":
            queue.end(record.number, "finished")
        elif record.number == 4:
            queue.end(record.number, "failed", "diverged")
        else:
            last = 1 if record.number % 5 == 3 and record.role != "finalist" else EPOCHS
            for epoch in range(1, last + 1):
                queue.result(record.number, metrics(record, epoch))
            queue.end(record.number, "finished" if last == EPOCHS else "stopped")
        yield


def settings(records: list[TrialRecord]) -> list[tuple[object, ...]]:
    return [(r.number, r.role, r.setting, r.seed, r.state, r.epochs) for r in records]


def test_the_order_and_the_plan(tmp_path: Path) -> None:
    sweep = simulated()
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    planned = queue.planned
    for _ in steps(queue):
        pass
    roles = [record.role for record in queue.records]
    assert roles == ["baseline"] + ["published"] * 6 + ["search"] * 7 + ["finalist"] * 6
    assert planned == len(queue.records) == queue.planned
    assert queue.next() is None


def test_an_observer_that_raises_is_dropped_and_the_sweep_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def damaged(record: TrialRecord) -> None:
        raise KeyError("training_seconds")

    sweep = simulated()
    watching = (damaged, lambda record: seen.append(record.number))
    queue = queue_of(sweep, new_store(tmp_path, sweep), listeners=watching)
    for _ in steps(queue):
        pass
    assert set(seen) == {record.number for record in queue.records}
    (said,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert said.exc_info is not None and said.exc_info[0] is KeyError


def test_a_failed_trial_with_a_fresh_seed_is_run_once_more_also_after_a_resume(
    tmp_path: Path,
) -> None:
    sweep = simulated({"selection": {"finalists": 1, "seeds": 2}}, trials=3)
    store = new_store(tmp_path, sweep)

    def run(queue: TrialQueue, at_most: int) -> None:
        while at_most and (record := queue.next()) is not None:
            if record.role == "finalist" and record.loss != "cross_entropy":
                queue.end(record.number, "failed", "the device was lost")
            else:
                for epoch in (1, 2):
                    queue.result(record.number, metrics(record, epoch))
                queue.end(record.number, "finished")
            at_most -= 1

    queue = queue_of(sweep, store)
    run(queue, 4)  # the search and the first trial with a fresh seed
    assert queue.records[-1].state == "failed"
    resumed = queue_of(sweep, store)
    run(resumed, 99)
    assert resumed.exhausted
    again = [(r.loss, r.seed) for r in resumed.records if r.role == "finalist"]
    baselines = sorted(each for each in again if each[0] == "cross_entropy")
    assert len(set(baselines)) == len(baselines) == 2
    assert len(set(again)) == 4
    assert len(again) == 6  # both seeds of the other setting twice
    assert resumed.planned == len(resumed.records)


def test_a_failed_trial_is_not_run_again_beyond_the_budget(tmp_path: Path) -> None:
    once = {"selection": {"finalists": 1, "seeds": 2}}
    sweep = simulated(once, trials=3, max_epochs=(3 + 4) * EPOCHS)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    while (record := queue.next()) is not None:
        for epoch in (1, 2):
            queue.result(record.number, metrics(record, epoch))
        queue.end(record.number, "failed" if record.role == "finalist" else "finished", "lost")
    assert queue.exhausted
    assert len(queue.records) == queue.planned == 7


def test_a_record_that_cannot_be_saved_ends_the_sweep(tmp_path: Path) -> None:
    sweep = simulated()
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    queue._save = lambda record: (_ for _ in ()).throw(UserError("another driver has the sweep"))
    with pytest.raises(UserError, match="another driver"):
        queue.next()


def test_the_epochs_that_are_left(tmp_path: Path) -> None:
    sweep = simulated()
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    assert epochs_left(queue) == (14 + 6) * EPOCHS  # the number of stopped trials is still unknown
    for last in (EPOCHS, EPOCHS, 1):  # the baseline, and two trials of the search
        record = queue.next()
        assert record is not None
        for epoch in range(1, last + 1):
            queue.result(record.number, metrics(record, epoch))
        queue.end(record.number, "finished" if last == EPOCHS else "stopped")
    usual = (EPOCHS + 1) / 2
    assert epochs_left(queue) == pytest.approx(11 * usual + 6 * EPOCHS)
    running = queue.next()
    assert running is not None
    queue.result(running.number, metrics(running, 1))
    there = usual * (1 - 1 / EPOCHS)
    assert epochs_left(queue) == pytest.approx(10 * usual + there + 6 * EPOCHS)
    for epoch in range(2, EPOCHS + 1):
        queue.result(running.number, metrics(running, epoch))
    queue.end(running.number, "finished")
    for _ in steps(queue):
        pass
    assert epochs_left(queue) == 0


def test_what_is_on_disk_is_what_is_in_memory(tmp_path: Path) -> None:
    sweep = simulated()
    store = new_store(tmp_path, sweep)
    queue = queue_of(sweep, store)
    for _ in steps(queue):
        on_disk = store.load_records()
        assert settings(on_disk) == settings(queue.records)
    assert store.load_records() == queue.records


TWO_STAGES = {"encoder": {"training": {"epochs": 5}}}


def trained(store: SweepStore) -> set[int]:
    """The seeds with a trained encoder, according to the trial records."""
    records = store.load_records()
    return {r.seed for r in records if r.role == "encoder" and r.state == "finished"}


AUTO: dict[str, object] = {"selection": {"finalists": 2, "seeds": "auto"}}


def decided_at_five(ranking: Ranking) -> Look:
    assert ranking.chosen is not None
    return "open" if ranking.chosen.seeds < 5 else "decided"


def seeds_of_finalists(queue: TrialQueue) -> list[int]:
    """Numbers of fresh seeds of the finalists and the baseline, in descending order."""
    finals = [record.setting for record in queue.records if record.role == "finalist"]
    return sorted((finals.count(setting) for setting in set(finals)), reverse=True)


@pytest.mark.parametrize(
    ("look", "search", "seeds", "ended_by"),
    [
        (lambda ranking: "hopeless", {}, [3, 3, 1], "hopeless"),
        (decided_at_five, {}, [5, 5, 1], "decided"),
        (lambda ranking: "open", {}, [8, 8, 1], None),
        (lambda ranking: "open", {"max_epochs": 34}, [5, 5, 1], "max_epochs"),
        (lambda ranking: "open", {"objective": "val_nll"}, [3, 3], "hopeless"),
    ],
    ids=["hopeless", "decided", "most", "budget", "baseline is best"],
)
def test_the_best_finalist_and_the_baseline_get_seeds_until_the_verdict_is_decided(
    tmp_path: Path,
    look: Callable[[Ranking], Look],
    search: dict[str, object],
    seeds: list[int],
    ended_by: str | None,
) -> None:
    sweep = simulated(AUTO, trials=6, **search)
    queue = queue_of(sweep, new_store(tmp_path, sweep), take_look=look)
    for _ in steps(queue):
        pass
    assert seeds_of_finalists(queue) == seeds
    assert queue.finals.ended_by == ended_by
    assert queue.planned == len(queue.records)
    (most, *_) = sorted(Ranking(queue.records, rule_of(sweep)).candidates, key=lambda c: -c.seeds)
    assert len({record.seed for record in most.judged}) == seeds[0]


def test_a_larger_budget_continues_with_further_seeds(tmp_path: Path) -> None:
    sweep = simulated(AUTO, trials=6, max_epochs=34)
    store = new_store(tmp_path, sweep)
    for _ in steps(queue_of(sweep, store)):
        pass
    longer = simulated(AUTO, trials=6, max_epochs=100)
    resumed = queue_of(longer, store)
    for _ in steps(resumed):
        pass
    assert seeds_of_finalists(resumed) == [8, 8, 1]


DISCRETE = {"losses": [{"name": "focal", "space": {"gamma": {"choices": [1, 2, 4, 8, 16]}}}]}


def test_a_finite_space_is_searched_once_and_then_the_search_ends(tmp_path: Path) -> None:
    sweep = simulated(DISCRETE, trials=20)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    planned = queue.planned
    for _ in steps(queue):
        pass
    searched = [r for r in queue.records if r.searched]
    gammas = sorted(r.hyperparameters["gamma"] for r in searched if r.role != "baseline")
    assert gammas == [1, 2, 4, 8, 16]
    assert planned == len(queue.records) == queue.planned
    assert {r.role for r in queue.records} == {"baseline", "published", "search", "finalist"}


@pytest.mark.parametrize(
    ("sections", "search"),
    [
        pytest.param({}, {"trials": 9}, id="one stage"),
        pytest.param(TWO_STAGES, {}, id="two stages", marks=pytest.mark.slow),
        pytest.param(DISCRETE, {}, id="finite space"),
        pytest.param(
            {},
            {"max_epochs": 30, "objective": ["val_ece", "val_nll"]},
            id="a budget of epochs, two objectives",
            marks=pytest.mark.slow,
        ),
        pytest.param(AUTO, {"trials": 5}, id="seeds until decided"),
        pytest.param(
            {**AUTO, **TWO_STAGES},
            {"trials": 5},
            id="seeds until decided, two stages",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_crash_at_any_step_changes_nothing(
    tmp_path: Path, sections: dict[str, object], search: dict[str, object]
) -> None:
    sweep = simulated(sections, **search)
    whole = queue_of(sweep, new_store(tmp_path / "whole", sweep), take_look=decided_at_five)
    count = sum(1 for _ in steps(whole))
    assert count == 2 * len(whole.records)
    crashing = new_store(tmp_path / "crashing", sweep)
    queue = queue_of(sweep, crashing, take_look=decided_at_five)
    for step, _ in enumerate(steps(queue)):
        copy = tmp_path / f"copy{step}"
        shutil.copytree(tmp_path / "crashing", copy)
        store = SweepStore(str(copy), sweep.name)
        finished = {r.number: r.ended for r in store.load_records() if r.state != "running"}
        encoders = trained(store)
        resumed = queue_of(sweep, store, trained_encoders=encoders, take_look=decided_at_five)
        for _ in steps(resumed):
            pass
        assert settings(resumed.records) == settings(whole.records), f"crash after step {step}"
        assert {n: resumed.records[n].ended for n in finished} == finished
        shutil.rmtree(copy)


def test_encoders_come_first_and_their_heads_wait(tmp_path: Path) -> None:
    sweep = simulated(TWO_STAGES)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    encoders = [queue.next() for _ in range(3)]
    assert [(r.role, r.loss, r.seed) for r in encoders if r] == [
        ("encoder", "supcon", seed) for seed in (0, 1, 2)
    ]
    assert queue.next() is None  # all heads wait
    assert not queue.exhausted
    queue.end(0, "finished")
    baseline = queue.next()  # while the encoders of the fresh seeds are training
    assert baseline is not None
    assert (baseline.number, baseline.role) == (3, "baseline")


def test_an_existing_encoder_is_not_trained_again(tmp_path: Path) -> None:
    sweep = simulated(TWO_STAGES)
    queue = queue_of(sweep, new_store(tmp_path, sweep), trained_encoders={0, 2})
    planned = queue.planned
    for _ in steps(queue):
        pass
    encoders = [(r.role, r.seed) for r in queue.records if r.role == "encoder"]
    assert encoders == [("encoder", 1)]
    assert planned == len(queue.records) == queue.planned


def fail_encoders(queue: TrialQueue, seeds: Sequence[int]) -> None:
    """The next trials are the encoders of these seeds, and all fail."""
    for seed in seeds:
        record = queue.next()
        assert record is not None
        assert (record.role, record.seed) == ("encoder", seed)
        queue.end(record.number, "failed", "diverged")


def test_without_the_encoder_of_the_search_nothing_continues(tmp_path: Path) -> None:
    sweep = simulated(TWO_STAGES)
    store = new_store(tmp_path, sweep)
    queue = queue_of(sweep, store, trained_encoders={1})
    fail_encoders(queue, (0, 2, 0, 2))
    assert queue.next() is None
    assert queue.exhausted
    assert queue_of(sweep, store, trained_encoders={1}).exhausted


def test_a_failed_encoder_is_trained_again_once(tmp_path: Path) -> None:
    sweep = simulated(TWO_STAGES)
    store = new_store(tmp_path, sweep)
    queue = queue_of(sweep, store, trained_encoders={1})
    fail_encoders(queue, (0, 2))
    queue = queue_of(sweep, store, trained_encoders={1})  # also after a resume
    for _ in steps(queue):
        pass
    encoders = [(r.seed, r.state) for r in queue.records if r.role == "encoder"]
    assert encoders == [(0, "failed"), (2, "failed"), (0, "finished"), (2, "finished")]
    assert {r.seed for r in queue.records if r.role == "finalist"} == {1, 2}
    assert queue.planned == len(queue.records)


def test_finalists_skip_seeds_without_an_encoder(
    tmp_path: Path,
) -> None:
    sweep = simulated(TWO_STAGES)
    queue = queue_of(sweep, new_store(tmp_path, sweep), trained_encoders={0, 1})
    fail_encoders(queue, (2, 2))
    for _ in steps(queue):
        pass
    assert {r.seed for r in queue.records if r.role == "finalist"} == {1}
    assert queue.planned == len(queue.records)


def test_suggestions_follow_the_seed(tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((0, 0, 1)):
        sweep = simulated(seed=seed)
        queue = queue_of(sweep, new_store(tmp_path / str(number), sweep))
        for _ in steps(queue):
            pass
        found.append([record.setting for record in queue.records if record.role == "search"])
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert len(set(found[0])) == len(found[0])


class Clock:
    """Stands still, but when it is reported to continue."""

    def __init__(self) -> None:
        self.now = 1e9

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("trial_queue", "budget"):
        monkeypatch.setattr(f"sweeps.search.{module}.clock", clock)
    return clock


def trials_of_an_hour(queue: TrialQueue, clock: Clock) -> None:
    """Run a sweep whose trials take an hour each, sequentially."""
    for step, _ in enumerate(steps(queue)):
        clock.now += 3600.0 * (step % 2 == 0)


def test_the_search_ends_in_time_for_the_finals(tmp_path: Path, clock: Clock) -> None:
    sweep = simulated(max_hours=17.5, trials=100)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    trials_of_an_hour(queue, clock)
    roles = [record.role for record in queue.records]
    assert roles == ["baseline"] + ["published"] * 6 + ["search"] * 4 + ["finalist"] * 6
    assert queue.ended_by == "max_hours"
    assert not queue.cut_short


def test_properties_report_and_advance_decides(tmp_path: Path, clock: Clock) -> None:
    sweep = simulated(max_hours=12, trials=100)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    record = queue.next()
    assert record is not None
    for epoch in range(1, sweep.training.epochs + 1):
        queue.result(record.number, metrics(record, epoch))
    clock.now += 3600
    queue.end(record.number, "finished")
    clock.now += 8 * 3600  # the search is over, because the finalists need the rest
    names = ("exhausted", "cut_short", "planned", "finals_left", "progress")
    before = [getattr(queue, name) for name in names]
    assert [getattr(queue, name) for name in names] == before
    assert queue.ended_by is None
    queue.advance()
    assert queue.ended_by == "max_hours"


@pytest.mark.parametrize("sections", [{}, TWO_STAGES], ids=["one stage", "two stages"])
def test_when_the_hours_are_spent_nothing_begins_and_a_resume_has_no_more(
    tmp_path: Path, clock: Clock, sections: dict[str, object]
) -> None:
    sweep = simulated(sections, max_hours=2.5)
    store = new_store(tmp_path, sweep)
    queue = queue_of(sweep, store)
    begun = queue.next()
    assert begun is not None
    clock.now += 2 * 3600
    epoch = metrics(begun, 1) | {"timestamp": clock.now + 9e5, "run_seconds": 7200.0}
    clock.now += 24 * 3600  # the sweep is not running
    cut_off(store, [epoch], clock.now)
    resumed = queue_of(sweep, store)
    again = resumed.next()
    assert again is not None
    assert again.number == begun.number
    assert resumed.budget.spent["max_hours"] == (pytest.approx(2.0), 2.5)
    clock.now += 1800
    assert resumed.exhausted  # the budget also limits published settings and encoders
    assert resumed.cut_short
    assert resumed.next() is None
    assert queue_of(simulated(sections, max_hours=4), store).next() is not None


def cut_off(store: SweepStore, history: list[dict[str, float]], now: float) -> None:
    """Resume a sweep with one trial that was running when the driver was killed."""
    (record,) = store.load_records()
    record.cut_off(history, now)
    store.save(record)


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_a_step_of_the_clock_changes_no_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    sweep = simulated(max_hours=1.0)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    begun = queue.next()
    assert begun is not None
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + step)
    spent, _ = queue.budget.spent["max_hours"]
    assert 0 <= spent < 0.1
    assert queue.budget.used_up is None
    queue.result(begun.number, metrics(begun, 1))
    queue.end(begun.number, "failed", "diverged")
    assert begun.ended is not None
    assert 0 <= begun.ended - begun.started < 360
    assert 0 <= begun.seconds(now) < 360


def test_a_clock_that_is_set_back_before_a_resume_keeps_what_was_spent(
    tmp_path: Path, clock: Clock
) -> None:
    sweep = simulated(max_hours=1.0)
    store = new_store(tmp_path, sweep)
    begun = queue_of(sweep, store).next()
    assert begun is not None
    clock.now -= 7200
    cut_off(store, [metrics(begun, 1) | {"timestamp": 0.0, "run_seconds": 300.0}], clock.now)
    spent, _ = queue_of(sweep, store).budget.spent["max_hours"]
    assert spent == pytest.approx(300 / 3600)


@pytest.mark.parametrize("ahead", [-7200.0, 0.0, 7200.0])
def test_clock_differences_of_workers_do_not_use_up_the_budget(
    tmp_path: Path, clock: Clock, ahead: float
) -> None:
    sweep = simulated(max_hours=1.0)
    store = new_store(tmp_path, sweep)
    begun = queue_of(sweep, store).next()
    assert begun is not None
    first = metrics(begun, 1) | {"timestamp": clock.now + ahead + 300, "run_seconds": 300.0}
    clock.now += 5 * 3600
    cut_off(store, [first], clock.now)
    resumed = queue_of(sweep, store)
    assert resumed.budget.spent["max_hours"] == (pytest.approx(300 / 3600), 1.0)
    # A second run without known epochs: the epoch of the first run does not count again.
    assert resumed.next() is not None
    clock.now += 3600
    cut_off(store, [first], clock.now)
    assert queue_of(sweep, store).budget.spent["max_hours"][0] == pytest.approx(300 / 3600)


def test_old_records_whose_worker_was_ahead_cost_no_more_than_the_time_that_passed(
    tmp_path: Path, clock: Clock
) -> None:
    sweep = simulated(max_hours=1.0)
    store = new_store(tmp_path, sweep)
    begun = queue_of(sweep, store).next()
    assert begun is not None
    epoch = metrics(begun, 1) | {"timestamp": clock.now + 7500}
    clock.now += 600
    cut_off(store, [epoch], clock.now)
    assert queue_of(sweep, store).budget.spent["max_hours"][0] == pytest.approx(600 / 3600)


def test_a_resume_knows_how_many_trials_ran_at_once(tmp_path: Path, clock: Clock) -> None:
    sweep = make_sweep(
        "simulated",
        training={"epochs": EPOCHS},
        search={"trials": 100, "max_hours": 6},
        selection={"finalists": 2, "seeds": 4},
    )
    store = new_store(tmp_path, sweep)
    queue = queue_of(sweep, store)
    running = [queue.next() for _ in range(8)]
    clock.now += 3600
    for record in running:
        assert record is not None
        queue.result(record.number, metrics(record, EPOCHS))
        queue.end(record.number, "finished")
    # Twelve trials of the finals take two hours, eight at once; one after the other twelve.
    resumed = queue_of(sweep, store)
    begun = [resumed.next(), resumed.next()]
    assert [record.role for record in begun if record is not None] == ["search", "search"]


def test_concurrent_trials_count_once_in_hours_and_each_in_gpu_hours(
    tmp_path: Path, clock: Clock
) -> None:
    quarter = {"scaling": {"gpus_per_worker": 0.25}}
    sweep = simulated(quarter, max_hours=100, max_gpu_hours=100)
    store = new_store(tmp_path, sweep)
    queue = queue_of(sweep, store)
    first = queue.next()
    clock.now += 3600
    second = queue.next()
    assert first is not None
    assert second is not None
    clock.now += 3600
    for record in (first, second):
        queue.result(record.number, metrics(record, EPOCHS))
        queue.end(record.number, "finished")
    clock.now += 1800  # the time of the driver
    assert queue.budget.spent == {"max_hours": (2.5, 100), "max_gpu_hours": (0.75, 100)}
    resumed = queue_of(sweep, store)
    assert resumed.budget.spent == {"max_hours": (2.0, 100), "max_gpu_hours": (0.75, 100)}


def test_gpu_hours_end_the_search_in_time_for_the_finals(tmp_path: Path, clock: Clock) -> None:
    sweep = simulated({"scaling": {"gpus_per_worker": 0.5}}, max_gpu_hours=8.5, trials=100)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    trials_of_an_hour(queue, clock)
    roles = [record.role for record in queue.records]
    assert roles == ["baseline"] + ["published"] * 6 + ["search"] * 4 + ["finalist"] * 6
    assert queue.ended_by == "max_gpu_hours"
    assert not queue.cut_short


@given(
    max_epochs=st.integers(EPOCHS, 60),
    finalists=st.integers(0, 3),
    seeds=st.integers(0, 3),
    at_once=st.integers(1, 4),
)
def test_a_budget_of_epochs_reserves_epochs_for_finalists(
    max_epochs: int, finalists: int, seeds: int, at_once: int
) -> None:
    sweep = make_sweep(
        training={"epochs": EPOCHS},
        search={"trials": 14, "sampler": "random", "max_epochs": max_epochs},
        selection={"finalists": finalists, "seeds": seeds},
    )
    queue = TrialQueue(Plan(sweep), lambda record: None, 10)
    running: list[TrialRecord] = []
    while not queue.exhausted:
        while len(running) < at_once and (record := queue.next()) is not None:
            running.append(record)
        record = running.pop(0)
        last = 1 if record.number % 3 == 2 and record.role != "finalist" else EPOCHS
        for epoch in range(1, last + 1):
            queue.result(record.number, metrics(record, epoch))
        queue.end(record.number, "finished" if last == EPOCHS else "stopped")
    assert not running
    spent = sum(record.epochs for record in queue.records)
    assert queue.budget.spent["max_epochs"] == (spent, max_epochs)
    assert spent <= max_epochs
    finals = [record for record in queue.records if record.role == "finalist"]
    searched = sum(record.searched for record in queue.records)
    if searched > 1 and finalists and seeds:  # the trial of the baseline may use the whole budget
        whole = {r.setting for r in queue.records if r.searched and r.state == "finished"}
        others = min(finalists, len(whole) - 1)  # besides the baseline; the first has all seeds
        assert len(finals) == seeds + (seeds + others - 1 if others else 0)
    assert (queue.ended_by == "max_epochs") is (searched < 14)
    assert not queue.cut_short


def test_names_and_storage(tmp_path: Path) -> None:
    sweep = simulated()
    store = new_store(tmp_path, sweep)
    assert store.load_sweep() == sweep
    with pytest.raises(UserError, match=r"a sweep of this name exists.*calsweep resume simulated"):
        store.create(sweep)
    with pytest.raises(UserError, match=r"no sweep named 'simulatd'.*did you mean 'simulated'"):
        SweepStore(str(tmp_path), "simulatd").load_sweep()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"storage = .*cannot be used"):
        check_storage(str(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match=r"storage = 'nope://x'"):
        check_storage("nope://x")
    check_storage(str(tmp_path / "new" / "folder"))
    assert not (tmp_path / "new").exists()


def test_a_sweep_is_run_by_one_process(tmp_path: Path) -> None:
    store = new_store(tmp_path, simulated())
    refused = pytest.raises(UserError, match=r"being run by process \d+")
    with store.locked(), refused, store.locked():
        pass
    with store.locked():
        pass


def test_a_sweep_cut_off_in_its_finals_does_not_search_again(tmp_path: Path, clock: Clock) -> None:
    limited = simulated(max_hours=13.5)
    store = new_store(tmp_path, limited)
    queue = queue_of(limited, store)
    for step, _ in enumerate(steps(queue)):
        clock.now += 3600.0 * (step % 2 == 0)
        if queue.records[-1].role == "finalist":
            break
    # It has more hours now, which the search must not use.
    resumed = queue_of(simulated(max_hours=100.0), store)
    for _ in steps(resumed):
        pass
    roles = [record.role for record in resumed.records]
    assert roles == ["baseline"] + ["published"] * 6 + ["finalist"] * 6
    finals = [(r.setting, r.seed) for r in resumed.records if r.role == "finalist"]
    assert len(set(finals)) == 6


def test_a_crash_in_a_long_sweep_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many trials, Optuna gets only some: the same ones after a resume."""
    monkeypatch.setattr("sweeps.search.optuna_internals.LATEST", 8)
    monkeypatch.setattr("sweeps.search.optuna_internals.BEST", 3)
    sweep = simulated(trials=40)
    whole = queue_of(sweep, new_store(tmp_path / "whole", sweep))
    for _ in steps(whole):
        pass
    for cut in (21, 48, 66):
        folder = tmp_path / f"cut{cut}"
        queue = queue_of(sweep, new_store(folder, sweep))
        for step, _ in enumerate(steps(queue)):
            if step == cut:
                break
        store = SweepStore(str(folder), sweep.name)
        resumed = queue_of(sweep, store)
        for _ in steps(resumed):
            pass
        assert settings(resumed.records) == settings(whole.records), f"crash after step {cut}"


def test_a_trial_whose_process_dies_is_retried_while_it_progresses(tmp_path: Path) -> None:
    sweep = simulated()
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    lively, stuck = queue.next(), queue.next()
    assert lively is not None
    assert stuck is not None
    for epoch in range(1, EPOCHS + 1):
        for _ in range(3):
            queue.died(lively.number)
            assert queue.next() is lively
        queue.result(lively.number, metrics(lively, epoch))
    assert lively.state == "running"
    for _ in range(3):
        queue.died(stuck.number)
        assert queue.next() is stuck
    queue.died(stuck.number)
    assert stuck.state == "failed"
    assert stuck.reason == "its process died 4 times in epoch 1, see driver.log"
    assert queue.live == 1


def test_the_last_trial_is_retried_too(tmp_path: Path) -> None:
    sweep = simulated()
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    for _ in steps(queue):
        last = queue.records[-1]
        if len(queue.records) == queue.planned and last.state == "running":
            queue.died(last.number)
            assert not queue.exhausted
            assert queue.next() is last
    assert last.role == "finalist"
    assert last.state == "finished"


@pytest.mark.parametrize("damaged", [0, 1, 4, 9])
def test_a_sweep_continues_without_the_records_that_are_damaged(
    tmp_path: Path, damaged: int
) -> None:
    sweep = simulated()
    store = new_store(tmp_path, sweep)
    queue = queue_of(sweep, store)
    initial = SearchSpace(sweep.losses).initial_settings(10)[: sweep.search.trials]
    for _ in zip(range(24), steps(queue), strict=False):
        pass
    store.trial_folder(damaged).write("trial.json", b"")
    resumed = queue_of(sweep, store)
    for _ in steps(resumed):
        pass
    assert resumed.exhausted
    numbers = [record.number for record in resumed.records]
    assert numbers == sorted(set(numbers))
    searched = [record for record in resumed.records if record.searched]
    assert len(searched) == sweep.search.trials
    assert {record.setting for record in searched} >= set(initial)
    assert [record.role for record in searched].count("baseline") == 1
    assert all(resumed.record(n).number == n for n in numbers)


@pytest.mark.parametrize(
    ("selection", "seeds"),
    [
        ({"finalists": 2, "seeds": 3}, [3, 3, 1]),
        ({"finalists": 2, "seeds": 3, "baseline_seeds": 6}, [5, 3, 1]),
        ({"finalists": 2, "seeds": 3, "ensemble": "never"}, [3, 3, 1]),
        ({"finalists": 0, "baseline_seeds": 3}, [2]),
        ({"finalists": 2, "seeds": 2, "per_loss": True}, [2, 2, 2]),
        ({"finalists": 2, "seeds": 1}, [1, 1, 1]),
        ({"finalists": 2, "seeds": "auto", "baseline_seeds": 7}, [8, 8, 1]),
    ],
)
def test_the_best_finalist_and_the_baseline_have_more_seeds_than_the_others(
    selection: dict[str, object], seeds: list[int], tmp_path: Path
) -> None:
    """`baseline_seeds` counts the training of the search, too."""
    sweep = simulated({"selection": selection}, trials=6)
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    planned = queue.planned
    for _ in steps(queue):
        pass
    assert seeds_of_finalists(queue) == seeds
    assert queue.planned == len(queue.records)
    assert planned == len(queue.records) or selection.get("seeds") == "auto"
    ranking = Ranking(queue.records, rule_of(sweep))
    assert ranking.baseline is not None
    if selection["finalists"]:
        assert ranking.chosen is not None
        of_best = next(c.seeds for c in ranking.candidates if c != ranking.baseline)
        assert ranking.baseline.seeds >= of_best == max(s for s in seeds[1:])


def test_with_several_objectives_every_finalist_has_all_seeds(tmp_path: Path) -> None:
    """Their front is compared."""
    sweep = simulated({"selection": {"finalists": 2, "seeds": 2}}, objective=["val_ece", "val_nll"])
    queue = queue_of(sweep, new_store(tmp_path, sweep))
    for _ in steps(queue):
        pass
    assert set(seeds_of_finalists(queue)) == {2}
