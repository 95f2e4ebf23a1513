"""The pilot: how many epochs all trials train for."""

from pathlib import Path

import pytest

from sweeps.errors import UserError
from sweeps.search.pilot import PilotQueue, common_epochs, next_epochs
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import Past
from sweeps.service.reading.finding import look_at
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import budgets_asked
from tests.builders import make_sweep, new_store
from tests.harness.command import calsweep

SWEEP = make_sweep("patient", training={"epochs": 10, "patience": 3})
OVERFITTING = [1.0, 0.8, 0.7, 0.6, 0.7, 0.8, 0.9, 0.6]


def run(store: SweepStore, curve: list[float], cut_off_after: int | None = None) -> TrialRecord:
    """Run the pilot as Tune does: an epoch is judged, then known."""
    own = store.pilot()
    queue = PilotQueue(Plan(SWEEP).of_pilot, own.save, 10, Past(own.load_records()))
    record = queue.next()
    assert record is not None
    assert queue.next() is None
    for epoch, nll in enumerate(curve, 1):
        entry = {"epoch": epoch, "val_nll": nll, "val_error": 0.1, "val_ece": 0.1}
        stops = queue.should_prune(record.number, [entry])
        queue.result(record.number, entry)
        if epoch == cut_off_after:
            return record
        if stops:
            queue.end(record.number, "stopped")
            break
    else:
        queue.end(record.number, "finished")
    assert queue.exhausted
    return record


@pytest.mark.parametrize(
    ("curve", "trained", "epochs"),
    [
        (OVERFITTING, 8, 4),
        ([0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2], 6, 2),
        ([0.9, 0.5, 0.8, 0.7, 0.6, 0.7, 0.5, 0.6, 0.6, 0.5], 10, 10),  # one low epoch is chance
        ([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.3], 10, 10),  # it was not stopped
    ],
)
def test_all_trials_end_where_the_pilot_was_best(
    tmp_path: Path, curve: list[float], trained: int, epochs: int
) -> None:
    record = run(new_store(tmp_path, SWEEP), curve)
    assert (record.loss, record.epochs) == ("cross_entropy", trained)
    assert common_epochs(record, SWEEP.training) == epochs


def test_where_the_pilot_ends_at_a_limit_half_or_twice_the_epochs_are_tried(tmp_path: Path) -> None:
    early = run(new_store(tmp_path / "a", SWEEP), [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2])
    assert [next_epochs(each, early, SWEEP.training) for each in (2, 1)] == [1, None]
    between = run(new_store(tmp_path / "b", SWEEP), OVERFITTING)
    assert next_epochs(4, between, SWEEP.training) is None
    late = run(new_store(tmp_path / "c", SWEEP), [1 - 0.1 * each for each in range(10)])
    assert next_epochs(10, late, SWEEP.training) is None
    longer = SWEEP.training.model_copy(update={"longest": 50})
    assert [next_epochs(each, late, longer) for each in (10, 20, 40)] == [20, 40, None]


def test_a_pilot_that_was_cut_off_continues(tmp_path: Path) -> None:
    store = new_store(tmp_path, SWEEP)
    run(store, OVERFITTING, cut_off_after=5)
    (store.pilot().trial_folder(0) / "checkpoints").write("epoch_000004-0.pt", b"weights")
    line = "Training the baseline to find the epochs of all trials: 4 of at most 10"
    shown = calsweep(tmp_path, "show", "patient", "--storage", ".")
    assert (
        shown.stdout
        == f"{line}\n\nnot finished; `calsweep resume patient --storage .` continues it\n"
    ), shown.stderr
    assert look_at("patient", str(tmp_path)).pilot == line
    record = run(store, OVERFITTING)  # it reports all its epochs once more
    assert look_at("patient", str(tmp_path)).pilot is None
    assert record.epochs == 8
    assert store.load_records() == []  # it is no trial of the sweep
    (known,) = store.pilot().load_records()
    assert (known.state, known.epochs) == ("stopped", 8)


def test_the_epochs_that_were_found_are_no_other_sweep_file() -> None:
    begun = make_sweep("patient", training={"epochs": 4, "patience": 3})
    assert budgets_asked(SWEEP, begun, SWEEP) == {}
    with pytest.raises(UserError, match=r"another training\.patience"):
        budgets_asked(make_sweep("patient", training={"epochs": 10, "patience": 2}), begun, SWEEP)


def test_two_stages_have_no_pilot() -> None:
    with pytest.raises(
        UserError, match=r"training\.patience is not possible together with encoder"
    ):
        make_sweep(training={"epochs": 10, "patience": 3}, encoder={})
