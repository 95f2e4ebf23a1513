"""The search that is guided by temperatures."""

import math
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.recorded import recorded_settings
from sweeps.search.trial_queue import Past, TrialQueue
from sweeps.search.warm_start import Known
from sweeps.sweep_file.loading import dump_sweep, parse_sweep
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep
from trainables.contract.setting import BASELINE, Setting

LOSSES = ["focal", "dual_focal", "inverse_focal", "label_smoothing", "mbls"]


def guided(**search: Any) -> SweepFile:
    return make_sweep(losses=LOSSES, search={"sampler": "guided", "trials": 30, **search})


def queue_of(sweep: SweepFile, records: Any = ()) -> TrialQueue:
    past = Past(records, Known(recorded=recorded_settings()))
    return TrialQueue(Plan(sweep), lambda record: None, 10, past)


def shown(setting: Setting, log_t: float, epochs: int) -> dict[str, float]:
    """Metrics of a setting, if log T and ECE decrease by a tenth per unit of γ."""
    gamma = setting.hyperparameters.get("gamma", 0.0)
    sign = {"focal": -1, "dual_focal": -1, "inverse_focal": 1}.get(setting.loss, 0)
    found = log_t + 0.1 * sign * gamma
    ece = 0.01 + 0.2 * abs(found)
    return {
        "epoch": float(epochs),
        "temperature": math.exp(found),
        "val_error": 0.1,
        "val_ece": ece,
        "val_ece_low": ece - 0.01,
        "val_ece_high": ece + 0.01,
        "val_ece_scaled": 0.01,
        "val_nll": 0.3,
    }


def searched(queue: TrialQueue, log_t: float, most: int = 60) -> list[TrialRecord]:
    """Runs the trials of the search sequentially, and returns them."""
    found = []
    while len(found) < most and (record := queue.next()) is not None and record.searched:
        found.append(record)
        queue.result(record.number, shown(record.setting, log_t, queue.plan.epochs))
        queue.end(record.number, "finished")
    return found


@pytest.mark.parametrize(("log_t", "towards"), [(0.4, -1), (-0.3, 1)])
def test_it_starts_with_the_baseline_and_finds_a_temperature_of_1(
    log_t: float, towards: int
) -> None:
    queue = queue_of(guided())
    records = searched(queue, log_t)
    assert records[0].setting == BASELINE
    best = min(records, key=lambda record: record.outcome["val_ece"])
    assert abs(math.log(best.outcome["temperature"])) < 0.1
    assert math.copysign(1, math.log(best.outcome["temperature"]) - log_t) == towards
    assert len({record.setting for record in records}) == len(records) < 25
    assert queue.ended_by == "sampler"
    assert queue.suggestions.least_gain == pytest.approx(
        0.5 * math.hypot(0.02 / 3.92, 0.05 * (0.01 + 0.2 * abs(log_t)))
    )


def test_a_resumed_search_suggests_what_it_would_have_suggested() -> None:
    whole = searched(queue_of(guided()), 0.4)
    first = searched(queue_of(guided()), 0.4, most=4)
    rest = searched(queue_of(guided(), first), 0.4)
    assert [r.setting for r in [*first, *rest]] == [r.setting for r in whole]


def test_trials_that_run_at_the_same_time_have_different_losses() -> None:
    queue = queue_of(guided())
    running = [queue.next() for _ in range(5)]
    losses = [record.loss for record in running if record is not None]
    assert len(set(losses)) == len(losses) == 5


def test_every_loss_is_tried_before_a_second_setting_of_one() -> None:
    sweep = make_sweep(losses=LOSSES, search={"sampler": "guided"})
    records = searched(queue_of(sweep), 1.0)
    first = [record.loss for record in records[: 1 + len(LOSSES)]]
    assert sorted(first) == sorted([BASELINE.loss, *LOSSES])
    queue = queue_of(sweep, records[: len(LOSSES)])
    (left,) = queue.suggestions.untried
    assert left.setting.loss == records[len(LOSSES)].loss
    assert 0.01 < left.expected < 0.3
    assert [each.setting.loss for each in queue_of(sweep).suggestions.untried] == LOSSES
    calibrated = queue_of(sweep, searched(queue_of(sweep), 0.0, most=1))  # none may be better
    assert [each.setting.loss for each in calibrated.suggestions.untried] == LOSSES


def test_a_setting_that_repeats_cross_entropy_gives_its_slot_to_another() -> None:
    queue = queue_of(make_sweep(losses=["mbls", "focal"], search={"sampler": "guided"}))
    same = {"epoch": 1.0, "val_error": 0.1, "val_ece": 0.05, "val_nll_scaled": 0.3}
    found = []
    for number in range(7):
        record = queue.next()
        assert record is not None
        found.append(record.loss)
        last = 0.01 * number * (record.loss == "focal")
        metrics = {**same, "val_nll": 0.4, "temperature": 1.1, "val_nll_scaled": 0.3 + last}
        queue.result(record.number, metrics)
        queue.end(record.number, "finished")
    assert sorted(found[1:5]) == ["focal", "mbls", "mbls", "mbls"]
    assert len({record.setting for record in queue.records}) == 7


def test_without_a_temperature_the_baseline_is_followed_by_another_sampler() -> None:
    queue = queue_of(guided(trials=12))
    first = queue.next()
    assert first is not None
    queue.result(first.number, {"epoch": 1.0, "val_error": 0.1, "val_ece": 0.1})
    queue.end(first.number, "finished")
    found = []
    while (record := queue.next()) is not None and record.searched:
        found.append(record)
        queue.result(record.number, {"epoch": 1.0, "val_error": 0.1, "val_ece": 0.05})
        queue.end(record.number, "finished")
    assert len(found) == 11


def test_other_objectives_begin_with_the_published_settings() -> None:
    queue = queue_of(guided(objective="val_error"))
    roles = [record.role for record in (queue.next() for _ in range(3)) if record is not None]
    assert roles == ["baseline", "published", "published"]


def test_settings_with_nothing_to_search_are_tried_too() -> None:
    fixed = {"name": "focal", "hyperparameters": {"gamma": 3.0}}
    sweep = make_sweep(losses=[fixed], search={"sampler": "guided"})
    assert [r.setting for r in searched(queue_of(sweep), 0.4)] == [
        BASELINE,
        Setting("focal", {"gamma": 3.0}),
    ]


def test_it_ends_when_no_candidate_is_left() -> None:
    few = {"name": "focal", "space": {"gamma": {"choices": [4.0, 8.0, 10.0]}}}
    queue = queue_of(make_sweep(losses=[few], search={"sampler": "guided"}))
    assert len(searched(queue, 2.0)) == 4


def test_a_sweep_is_guided_unless_it_says_otherwise() -> None:
    smallest = {"name": "small", "dataset": "digits", "losses": ["focal"]}
    assert parse_sweep(smallest).search.is_guided
    assert not parse_sweep({**smallest, "search": {"objective": "refinement"}}).search.is_guided


def test_asha_is_off_unless_it_is_asked_for() -> None:
    sweep = guided()
    assert sweep.scheduler.name == "none"
    assert (
        parse_sweep({**sweep.model_dump(mode="json"), "scheduler": {"name": "asha"}}).scheduler.name
        == "asha"
    )
    stopping = make_sweep(scheduler={"grace_period": 1}, search={"sampler": "guided"})
    assert stopping.scheduler.name == "asha"
    assert make_sweep().scheduler.name == "asha"  # not guided
    assert guided(objective="val_error").scheduler.name == "asha"  # no temperature affects it
    assert "scheduler" in dump_sweep(sweep)


def test_an_empty_list_to_learn_from_is_refused() -> None:
    with pytest.raises(UserError, match="learn_from"):
        guided(learn_from=[])
