"""Trials of the search have few metrics; the others come from their predictions when asked for."""

import logging
import math
from pathlib import Path

import pytest

import calsweep
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.store.earlier_sweeps import sweeps_to_learn_from
from sweeps.store.outcomes import complete
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep
from tests.harness.trained import train_sweep
from trainables.metrics import METRIC_NAMES, evaluate

SMALL = make_sweep(
    "small",
    dataset={"name": "digits", "train_samples": 200},
    model={"name": "small_cnn", "width": 4},
    training={"epochs": 1, "batch_size": 64, "lr": 0.05},
    search={"guard": 1.0, "constraints": {"val_auroc": {"at_least": 0.1}}},
    selection={"finalists": 0, "seeds": 0},
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SweepStore:
    folder = tmp_path_factory.mktemp("few")
    return train_sweep(folder, SMALL, [("focal", 1.0), ("focal", 3.0)])


def only_searched(store: SweepStore) -> TrialRecord:
    """The trial by which the result shows no loss."""
    records = store.load_records()
    shown = {trial.number for trial in Ranking(records, Plan(SMALL).rule).shown}
    (record,) = [r for r in records if r.number not in shown]
    return record


def test_results_show_trials_with_all_metrics(store: SweepStore) -> None:
    few = only_searched(store)
    assert {"val_ece", "val_ece_low", "val_auroc", "test_brier_scaled"} <= few.outcome.keys()
    assert not {"val_kde_ece", "test_ece_low"} & few.outcome.keys()
    result = calsweep.load(store.storage, "small")
    table = result.table().set_index("trial")
    assert table.pop("test_kde_ece").isna().tolist() == [n == few.number for n in table.index]
    whole = result.table(all_metrics=True).set_index("trial")
    assert not whole[[f"val_{name}_scaled" for name in METRIC_NAMES]].isna().any(axis=None)
    logits, labels = store.rows("test", few.number).tensors()
    for name, value in evaluate(logits, labels).items():
        assert whole.loc[few.number, f"test_{name}"] == pytest.approx(value, abs=1e-12)
    assert math.isnan(result.table().set_index("trial").loc[few.number, "test_kde_ece"])


def test_a_sweep_learns_from_trials_with_another_objective(store: SweepStore) -> None:
    search = {"learn_from": ["small"], "objective": "val_smooth_ece"}
    found = sweeps_to_learn_from(make_sweep("next", search=search), store.storage)
    assert all("val_smooth_ece" in record.outcome for record in found["small"])


def test_trials_without_predictions_stay_as_they_are(
    store: SweepStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few, elsewhere = only_searched(store), SweepStore(str(tmp_path), "small")
    with caplog.at_level(logging.WARNING, "calsweep"):
        assert list(complete([few], Plan(SMALL), elsewhere.rows)) == []
    assert f"trial {few.number} has few metrics: " in caplog.text
