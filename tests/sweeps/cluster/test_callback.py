"""What Tune calls, called by hand: reports that come late, twice, or with the next one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import TrialScheduler

from sweeps.cluster.callback import LedgerCallback
from sweeps.cluster.scheduler import LedgerScheduler
from sweeps.cluster.searcher import LedgerSearcher
from sweeps.search.ledger import Ledger
from tests.builders import ledger_of, make_sweep, new_store
from trainables.report import Progressed, Waits, to_tune

EPOCHS = 9


def new_ledger(folder: Path, **sections: Any) -> Ledger:
    known = {
        "losses": ["focal"],
        "training": {"epochs": EPOCHS},
        "search": {"trials": 12},
        "scheduler": {"grace_period": 3, "reduction_factor": 3},
    }
    sweep = make_sweep("called", **{**known, **sections})
    return ledger_of(sweep, new_store(folder, sweep))


def trial(number: int) -> Any:
    return SimpleNamespace(config={"number": number}, trial_id=f"{number}", last_result={})


def report(val_nll: float, *epochs: int) -> dict[str, Any]:
    """As Tune carries it; worse from epoch 4 on."""
    entries = [
        {"epoch": e, "timestamp": 1e9 + e, "val_nll": val_nll + (e > 3), "val_ece": 0.1}
        for e in epochs
    ]
    return to_tune(Progressed(tuple(entries), done=False))


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
    asha = LedgerScheduler(ledger)
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
    waits = to_tune(Waits("disk full"))
    assert asha.on_trial_result(None, trial(6), waits) == TrialScheduler.CONTINUE
