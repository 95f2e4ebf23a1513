"""What Tune calls, called by hand: reports that come late, twice, or with the next one."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ray.tune.schedulers import TrialScheduler

from sweeps.cluster.tuning import GuardedASHA, LedgerCallback, LedgerSearcher, make_scheduler
from sweeps.search.ledger import Ledger
from tests.builders import make_sweep, new_store

EPOCHS = 9


def new_ledger(folder: Path, **sections: Any) -> Ledger:
    known = {
        "losses": ["focal"],
        "training": {"epochs": EPOCHS},
        "search": {"trials": 12},
        "scheduler": {"grace_period": 3, "reduction_factor": 3},
    }
    sweep = make_sweep("called", **{**known, **sections})
    return Ledger(sweep, new_store(folder, sweep), num_classes=10)


@given(epochs=st.integers(1, 1000), grace=st.integers(1, 60) | st.none(), factor=st.integers(2, 6))
@example(epochs=300, grace=1, factor=3)
@example(epochs=2, grace=1, factor=2)
def test_ray_has_the_rungs_that_the_sweep_believes_in(
    tmp_path_factory: pytest.TempPathFactory, epochs: int, grace: int | None, factor: int
) -> None:
    ledger = new_ledger(
        tmp_path_factory.mktemp("rungs"),
        training={"epochs": epochs},
        scheduler={"grace_period": grace, "reduction_factor": factor},
    )
    asha = make_scheduler(ledger.sweep, ledger)
    if asha is None:
        assert ledger.sweep.rungs == ()
        return
    (bracket,) = asha._asha("focal")._brackets
    assert tuple(rung for rung, _ in reversed(bracket._rungs)) == ledger.sweep.rungs


def trial(number: int) -> Any:
    return SimpleNamespace(config={"number": number}, trial_id=f"{number}", last_result={})


def report(val_nll: float, *epochs: int) -> dict[str, Any]:
    """As `trainables.wrappers.one_process.as_result` makes it; worse from epoch 4 on."""
    entries = [
        {"epoch": e, "timestamp": 1e9 + e, "val_nll": val_nll + (e > 3), "val_ece": 0.1}
        for e in epochs
    ]
    return {"epoch": epochs[-1], "val_nll": entries[-1]["val_nll"], "entries": json.dumps(entries)}


def test_epochs_whose_reports_were_lost_come_with_the_next_one(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    searcher, callback = LedgerSearcher(ledger, lambda: 2), LedgerCallback(ledger)
    config = searcher.suggest("first")
    assert isinstance(config, dict)
    first = trial(config["number"])
    for epoch in (1, 2):
        callback.on_trial_result(0, [], first, report(1.0, epoch))
    callback.on_trial_error(0, [], first)  # its process died; it had trained epochs 3 and 4 too
    again = searcher.suggest("second")
    assert again == config
    callback.on_trial_result(0, [], trial(config["number"]), report(1.0, 1, 2, 3, 4))
    record = ledger.records[config["number"]]
    assert [entry["epoch"] for entry in record.history] == [1, 2, 3, 4]
    callback.on_trial_result(0, [], trial(config["number"]), report(1.0, 4))
    callback.on_trial_result(0, [], trial(config["number"]), report(1.0, 5))
    assert record.epochs == 5


def test_asha_judges_the_epoch_of_the_rung_whichever_report_it_comes_with(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    asha = GuardedASHA(ledger)
    decisions = {}
    for nll in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.15):
        record = ledger.next()
        assert record is not None
        asha.on_trial_add(None, trial(record.number))
        # The last one is good at epoch 3, which it reports together with its bad fourth.
        epochs = (1, 2, 3, 4) if nll == 0.15 else (3,)
        decisions[nll] = asha.on_trial_result(None, trial(record.number), report(nll, *epochs))
    assert decisions[0.5] == TrialScheduler.STOP
    assert decisions[0.15] == TrialScheduler.CONTINUE
    assert asha.on_trial_result(None, trial(6), {"waiting": "disk full"}) == TrialScheduler.CONTINUE
