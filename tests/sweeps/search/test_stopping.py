"""Early stopping: the same decisions as Ray's ASHA, within each loss."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import STOPPERS, SuccessiveHalving, is_at_chance, make_stopper
from sweeps.search.trial_queue import TrialQueue
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting


def make_sweep(epochs: int = 27, **scheduler: Any) -> SweepFile:
    return parse_sweep(
        {
            "name": "a",
            "dataset": "digits",
            "model": "small_cnn",
            "losses": ["focal"],
            "training": {"epochs": epochs},
            "search": {"sampler": "tpe"},
            "scheduler": scheduler,
        }
    )


def trial(number: int, loss: str = "focal") -> TrialRecord:
    return TrialRecord(number, "search", Setting(loss, {}), 0, 0.0)


def entry(epoch: int, val_nll: float) -> dict[str, float]:
    return {"epoch": epoch, "val_nll": val_nll}


@pytest.mark.parametrize(
    ("epochs", "scheduler", "rungs"),
    [
        (27, {}, (3, 9)),
        (200, {}, (22, 66)),  # a rung at 198 would save only 2 of 200 epochs
        (27, {"name": "none"}, ()),
        (10, {"grace_period": 9, "reduction_factor": 2}, (9,)),
        (1, {}, ()),
        (5, {"grace_period": 8}, ()),
        (4, {}, (1, 3)),
        (300, {"grace_period": 1, "reduction_factor": 3}, (1, 3, 9, 27, 81, 243)),
    ],
)
def test_the_epochs_at_which_trials_may_stop(
    epochs: int, scheduler: dict[str, Any], rungs: tuple[int, ...]
) -> None:
    assert make_stopper(Plan(make_sweep(epochs, **scheduler))).rungs == rungs


values = st.lists(st.lists(st.floats(0, 1), min_size=9, max_size=9), min_size=1, max_size=12)


@given(histories=values, factor=st.integers(2, 4))
def test_it_decides_as_rays_asha_does(histories: list[list[float]], factor: int) -> None:
    ours = SuccessiveHalving(Plan(make_sweep(9, grace_period=1, reduction_factor=factor)))
    rays = ASHAScheduler(
        time_attr="epoch",
        metric="val_nll",
        mode="min",
        grace_period=1,
        # Ray's number of rungs is a logarithm that may round down; half an epoch corrects this.
        max_t=ours.rungs[-1] + 0.5,
        reduction_factor=factor,
        stop_last_trials=False,
    )
    for number, history in enumerate(histories):
        stand_in = type("Stand", (), {"trial_id": str(number)})()
        rays.on_trial_add(None, stand_in)
        for epoch, value in enumerate(history, start=1):
            theirs = rays.on_trial_result(None, stand_in, entry(epoch, value))
            assert ours.judge(trial(number), entry(epoch, value)) is (theirs == TrialScheduler.STOP)


def test_losses_do_not_compete_with_each_other() -> None:
    asha = SuccessiveHalving(Plan(make_sweep(9, grace_period=1)))
    assert not asha.judge(trial(0), entry(1, 0.1))
    assert not asha.judge(trial(1, "brier"), entry(1, 5.0))
    assert asha.judge(trial(2), entry(1, 5.0))


def test_what_was_judged_once_is_not_judged_again() -> None:
    asha = SuccessiveHalving(Plan(make_sweep(9, grace_period=1)))
    assert not asha.judge(trial(0), entry(1, 0.5))
    assert not asha.judge(trial(1), entry(1, 0.1))
    assert not asha.judge(trial(0), entry(1, 0.5))  # retried after its process died
    assert asha.judge(trial(2), entry(1, 0.4))


def test_a_trial_whose_metric_is_undefined_is_stopped_and_spoils_nothing() -> None:
    asha = SuccessiveHalving(Plan(make_sweep(9, grace_period=1)))
    assert not asha.judge(trial(0), entry(1, 0.5))
    assert asha.judge(trial(1), entry(1, float("nan")))
    assert asha.judge(trial(2), {"epoch": 1})
    assert not asha.judge(trial(3), entry(1, 0.4))


@pytest.mark.parametrize(
    ("error", "classes", "at_chance"),
    [
        (0.93, 20, True),  # 20 Newsgroups after an epoch; chance level is .95
        (0.90, 20, False),
        (0.0, 10, False),
        (1.0, 10, True),
        (0.5, 2, True),
        (0.3, 2, False),
        (0.99, 1000, False),
        (float("nan"), 10, False),
    ],
)
def test_chance_level(error: float, classes: int, at_chance: bool) -> None:
    assert is_at_chance({"val_error": error}, classes) is at_chance


def test_trials_at_chance_level_are_not_compared() -> None:
    queue = TrialQueue(Plan(make_sweep(9)), lambda record: None, num_classes=20)
    for _ in range(4):
        queue.next()
    first, second = queue.outcome_epochs[:2]
    for number, (error, nll) in enumerate([(0.95, 2.9), (0.93, 3.0), (0.5, 3.0)], start=1):
        stopped = queue.should_prune(number, [{**entry(first, nll), "val_error": error}])
        assert stopped is (error == 0.5)
    assert not queue.should_prune(1, [{**entry(second, 2.9), "val_error": 0.95}])
    assert queue.should_prune(2, [{**entry(second, 3.0), "val_error": 0.93}])  # at the second rung


def test_adding_a_scheduler_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class FirstOnly:
        rungs = (2,)

        def __init__(self, plan: Plan) -> None:
            pass

        def judge(self, record: TrialRecord, entry: dict[str, float]) -> bool:
            return entry["epoch"] == 2 and record.number > 0

    monkeypatch.setitem(STOPPERS, "first_only", FirstOnly)
    stopper = make_stopper(Plan(make_sweep(name="first_only")))
    assert stopper.rungs == (2,)
    assert stopper.judge(trial(1), entry(2, 0.0))


@given(
    st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=40),
    st.integers(2, 5),
)
def test_the_limit_is_numpys_percentile_to_the_last_bit(values: list[float], factor: int) -> None:
    with np.errstate(invalid="ignore"):  # arithmetic with infinities
        limit = np.percentile(values, 100 / factor)
    for value in (float(limit), float(np.nextafter(limit, np.inf))):
        stopper = SuccessiveHalving(Plan(make_sweep(reduction_factor=factor)))
        for number, known in enumerate(values):
            stopper.judge(trial(number), entry(3, known))
        assert stopper.judge(trial(len(values)), entry(3, value)) == (not value <= limit)
