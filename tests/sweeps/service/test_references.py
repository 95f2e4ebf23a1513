"""A reference model that is better is said first, and is handed out by the same doors."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from calsweep import load as load_result
from sweeps.errors import UserError
from sweeps.messages.reporter import LOG
from sweeps.planning.data import load_data
from sweeps.results.best import best_settings
from sweeps.results.evidence import Evidence
from sweeps.results.explanation import result_of
from sweeps.results.recommendation import recommend
from sweeps.service.delivery.delivered import RECOMMENDED, Wanted, deliver
from sweeps.service.delivery.exporting import export_model
from sweeps.service.delivery.predicting import predict
from sweeps.service.delivery.registering import _succession
from sweeps.service.reading.stored import StoredSweep, stored_sweeps
from sweeps.service.references import compare_reference, fit_references, reference_scalings
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep
from tests.harness.trained import train_sweep
from trainables.export.exported import run_onnx

FIRST = "Gradient boosting is better than cross-entropy with "


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SweepStore:
    """A sweep that has ended, on a table on which trees are better than a linear network."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(900, 2)).round(5)
    words = rng.integers(4, size=900)
    labels = (numbers[:, 0] > 0) ^ (numbers[:, 1] > 0) ^ (words == 2)
    lines = [f"{a},{b},w{w},{int(y)}" for (a, b), w, y in zip(numbers, words, labels, strict=True)]
    (folder / "data.csv").write_text("\n".join(["a,b,word,label", *lines]))
    sweep = make_sweep(
        "table",
        dataset={"name": "csv", "train": str(folder / "data.csv")},
        model={"name": "table_mlp", "width": 4},
        losses=["focal"],
        training={"epochs": 1},
        selection={"finalists": 0, "seeds": 0},
    )
    made = train_sweep(folder / "store", sweep, [])
    end(made)
    return made


def end(store: SweepStore) -> None:
    """As at the end of a sweep."""
    sweep = StoredSweep.read(store.name, store.storage)
    plan = replace(sweep.plan, sweep=sweep.plan.sweep.model_copy(update={"reference": "auto"}))
    references = fit_references(plan, store, load_data(sweep.plan.sweep), LOG)
    evidence = Evidence(references=references)
    evidence = replace(evidence, scalings=tuple(reference_scalings(sweep, references)))
    compared = compare_reference(sweep, evidence, recommend(sweep.ranking, evidence))
    evidence = replace(evidence, against_reference=compared[0])
    store.save_answer(result_of(sweep.ranking, plan, evidence).to_json())


def test_the_better_reference_is_said_first(store: SweepStore) -> None:
    found = StoredSweep.read("table", store.storage).result
    compared = found.evidence.against_reference
    assert compared is not None and compared.verdict == "supported"
    first = f"{-compared.value:.4f} NLL [{-compared.high:.4f}, {-compared.low:.4f}]"
    assert found.recommended is not None
    assert found.recommended.text.startswith(FIRST)
    assert (
        f"{first} on the test split: use it (`calsweep export NAME --reference`)."
        in found.recommended.text
    )
    assert found.to_json()["recommended"]["better_reference"].startswith(FIRST)
    (entry,) = best_settings(stored_sweeps(store.storage))
    assert str(entry.better_reference).startswith(FIRST)
    rows = {row.loss: row for row in found.rows}
    assert rows["gradient boosting"].metrics["test_ece"] < 0.1
    boosting = found.evidence.references[0].outcome
    assert {"test_nll_low", "test_nll_scaled_high", "test_auroc"} <= boosting.keys()


def test_the_same_doors_hand_it_out(store: SweepStore, tmp_path: Path) -> None:
    sweep = StoredSweep.read("table", store.storage)
    delivered = deliver(sweep, Wanted(reference=True))
    assert delivered.recommended and delivered.why.startswith(FIRST)
    data = load_data(sweep.plan.sweep)
    rows = data.test.rows(slice(None))
    model = load_result(store.storage, "table").model(reference=True)
    with torch.no_grad():
        expected = model(torch.from_numpy(rows)).numpy()
    assert (expected.argmax(1) == data.test.labels).mean() > 0.95
    folder, words = export_model(
        "table", store.storage, str(tmp_path / "model"), onnx=True, wanted=Wanted(reference=True)
    )
    assert words.startswith("gradient boosting, ")
    found = run_onnx((Path(folder) / "model.onnx").read_bytes(), rows)
    assert np.abs(found - expected).max() < 1e-6
    table = io.StringIO()
    (tmp_path / "new.csv").write_text("a,b,word\n1.0,1.0,w0\n1.0,-1.0,w0\n1.0,1.0,w2\n")
    predict(folder, str(tmp_path / "new.csv"), table)
    assert [line.split(",")[1] for line in table.getvalue().splitlines()[1:]] == ["0", "1", "1"]


def test_no_network_becomes_the_champion_beside_it(store: SweepStore) -> None:
    sweep = StoredSweep.read("table", store.storage)
    registry, version = object(), object()
    moves = {}
    for wanted in (RECOMMENDED, Wanted(reference=True)):
        given = registry, sweep, deliver(sweep, wanted), version, None
        moves[wanted] = _succession(*given)  # type: ignore[arg-type]
    assert moves[RECOMMENDED][0] is False and moves[RECOMMENDED][1].startswith(FIRST)
    assert moves[Wanted(reference=True)][0] is True


def test_there_may_be_no_reference(store: SweepStore) -> None:
    sweep = StoredSweep.read("table", store.storage)
    kept = store.load_answer()
    assert kept is not None
    store.save_answer({**kept, "references": []})
    with pytest.raises(UserError, match="reference: sweep 'table' has no reference model"):
        deliver(sweep, Wanted(reference=True))
    store.save_answer(kept)
