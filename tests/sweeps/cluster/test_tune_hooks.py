"""The Tune callback, called directly: late, repeated and combined reports."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import TrialScheduler

from sweeps.cluster.tune_hooks import Outside, QueueCallback, QueueScheduler, QueueSearcher
from sweeps.errors import UserError
from sweeps.search.trial_queue import TrialQueue
from tests.builders import Noted, make_sweep, new_store, queue_of
from trainables.contract.messages import Failed, Progressed, Waiting, to_tune

EPOCHS = 9


def new_queue(folder: Path, **sections: Any) -> TrialQueue:
    known = {
        "losses": ["focal"],
        "training": {"epochs": EPOCHS},
        "search": {"trials": 12},
        "scheduler": {"grace_period": 3, "reduction_factor": 3},
    }
    sweep = make_sweep("called", **{**known, **sections})
    return queue_of(sweep, new_store(folder, sweep))


def trial(number: int) -> Any:
    return SimpleNamespace(
        config={"number": number}, trial_id=f"{number}", last_result={}, error_file=None
    )


def report(val_nll: float, *epochs: int) -> dict[str, Any]:
    """A report as a result of Tune; worse from epoch 4 on."""
    entries = [
        {"epoch": e, "timestamp": 1e9 + e, "val_nll": val_nll + (e > 3), "val_ece": 0.1}
        for e in epochs
    ]
    return to_tune(Progressed(tuple(entries), done=False))


def test_a_driver_that_lost_its_sweep_ends(tmp_path: Path) -> None:
    def check() -> None:
        raise UserError("the lease is gone")

    with pytest.raises(UserError, match="the lease is gone"):
        QueueCallback(new_queue(tmp_path), outside=Outside(check=check)).on_step_end(1, [])


def test_the_first_of_each_warning_of_the_workers_is_shown(tmp_path: Path) -> None:
    queue = new_queue(tmp_path)
    searcher = QueueSearcher(queue, lambda: 2)
    said: list[str] = []
    callback = QueueCallback(queue, reporter=Noted(said))
    for name in "ab":
        searcher.suggest(name)
    entry = {"epoch": 1.0, "timestamp": 1e9, "val_nll": 0.1, "val_ece": 0.1}
    for number, warnings in ((0, ("UserWarning: a",)), (1, ("UserWarning: a", "UserWarning: b"))):
        result = to_tune(Progressed((entry,), False, warnings))
        callback.on_trial_result(1, [], trial(number), result)
    failed = trial(1)
    failed.last_result = to_tune(Failed("diverged", warnings=("RuntimeWarning: c",)))
    callback.on_trial_complete(1, [], failed)
    assert said == [
        "trial 0 warns: UserWarning: a",
        "trial 1 warns: UserWarning: b",
        "trial 1 warns: RuntimeWarning: c",
    ]


def test_a_lost_node_is_one_line_also_if_its_trials_ended_before(tmp_path: Path) -> None:
    queue, said, lost = new_queue(tmp_path), [], [[], ["far"], []]
    QueueSearcher(queue, lambda: 2).suggest("a")
    callback = QueueCallback(
        queue, reporter=Noted(said), outside=Outside(lost_nodes=lambda: lost.pop(0))
    )
    callback.on_trial_error(1, [], trial(0))
    for _ in range(3):
        callback.on_step_end(1, [])
    assert said.count("The node far is lost; its trials are retried") == 1


def test_deaths_on_nodes_that_drain_are_no_trials_fault(tmp_path: Path) -> None:
    queue = new_queue(tmp_path)
    drains = [True]
    callback = QueueCallback(queue, outside=Outside(nodes_drain=lambda: drains[0]))
    searcher = QueueSearcher(queue, lambda: 1)
    for _ in range(9):
        config = searcher.suggest("moves")
        assert isinstance(config, dict)
        assert config["number"] == 0
        callback.on_trial_error(0, [], trial(0))
    drains[0] = False
    for _ in range(4):
        assert queue.record(0).state == "running"
        assert isinstance(searcher.suggest("dies"), dict)
        callback.on_trial_error(0, [], trial(0))
    assert queue.record(0).state == "failed"


def test_epochs_whose_reports_were_lost_come_with_the_next_one(tmp_path: Path) -> None:
    queue = new_queue(tmp_path)
    searcher, callback = QueueSearcher(queue, lambda: 2), QueueCallback(queue)
    config = searcher.suggest("first")
    assert isinstance(config, dict)
    first = trial(config["number"])
    for epoch in (1, 2):
        callback.on_trial_result(0, [], first, report(1.0, epoch))
    callback.on_trial_error(0, [], first)  # its process died after epoch 4
    again = searcher.suggest("second")
    assert again == config
    callback.on_trial_result(0, [], trial(config["number"]), report(1.0, 1, 2, 3, 4))
    record = queue.records[config["number"]]
    assert [entry["epoch"] for entry in record.history] == [1, 2, 3, 4]
    callback.on_trial_result(0, [], trial(config["number"]), report(1.0, 4))
    callback.on_trial_result(0, [], trial(config["number"]), report(1.0, 5))
    assert record.epochs == 5


def test_asha_judges_the_epoch_of_the_rung_whichever_report_it_comes_with(tmp_path: Path) -> None:
    queue = new_queue(tmp_path)
    asha = QueueScheduler(queue)
    decisions = {}
    for nll in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.15):
        record = queue.next()
        assert record is not None
        asha.on_trial_add(None, trial(record.number))
        # The last trial is good at epoch 3, which it reports together with the bad epoch 4.
        epochs = (1, 2, 3, 4) if nll == 0.15 else (3,)
        decisions[nll] = asha.on_trial_result(None, trial(record.number), report(nll, *epochs))
    assert decisions[0.5] == TrialScheduler.STOP
    assert decisions[0.15] == TrialScheduler.CONTINUE
    waits = to_tune(Waiting("disk full"))
    assert asha.on_trial_result(None, trial(6), waits) == TrialScheduler.CONTINUE
