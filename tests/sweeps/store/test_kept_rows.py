"""Predictions are decoded once while they fit into memory."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sweeps.messages.reporter import LOG
from sweeps.results.recommendation import shown_network
from sweeps.search.plan import Plan
from sweeps.service.ending import end_of, take_look
from sweeps.service.reading.mistakes import keep_mistakes, load_mistakes
from sweeps.service.reading.stored import StoredSweep
from sweeps.store.kept_rows import KeptRows
from sweeps.tracking.artifacts import collect_artifacts
from tests.builders import baseline, finalist, make_sweep, new_store, queue_of, trial
from trainables.data import load_dataset
from trainables.files.rows import Rows, predictions_file
from trainables.files.storage import Folder


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """How often each content was decoded."""
    contents: Counter[bytes] = Counter()
    decode = Rows.decode

    def counting(data: bytes) -> Rows:
        contents[data] += 1
        return decode(data)

    monkeypatch.setattr(Rows, "decode", counting)
    return contents


def some_rows(labels: np.ndarray, seed: int) -> Rows:
    logits = np.random.default_rng(seed).normal(size=(len(labels), 10))
    logits[np.arange(len(labels)), labels] += 2
    return Rows(logits.astype(np.float32), labels)


def write(folder: Folder, split: str, rows: Rows) -> None:
    folder.write(predictions_file(split), rows.encode())


def test_the_end_of_a_sweep_decodes_each_file_at_most_once(
    tmp_path: Path, decoded: Counter[bytes]
) -> None:
    """The verdicts, the ensemble, sets, warnings, mistakes, the report and MLflow's files."""
    data = load_dataset("digits", seed=0)
    searched = [baseline(val_ece=0.05), trial(1, val_ece=0.02), trial(2, "mbls", val_ece=0.03)]
    records = [
        *searched,
        *(
            finalist(3 + 2 * place + seed, each, 1 + seed, val_ece=each.outcome["val_ece"])
            for place, each in enumerate(searched)
            for seed in (0, 1)
        ),
    ]
    for record in records:
        record.outcome["val_nll_scaled"] = 0.1
    sweep = make_sweep(
        search={"trials": 3}, selection={"finalists": 2, "seeds": 2, "per_loss": True}
    )
    store = new_store(tmp_path, sweep, records)
    for record in records:
        folder = store.trial_folder(record.number)
        write(folder, "validation", some_rows(data.validation.labels, 2 * record.number))
        write(folder, "test", some_rows(data.test.labels, 2 * record.number + 1))
    for record in records:
        artifacts = tmp_path / f"artifacts{record.number}"
        artifacts.mkdir()
        collect_artifacts(store, record, {}, artifacts)
        assert (artifacts / "reliability.svg").exists()
    ending = end_of(queue_of(sweep, store), store, data, LOG)
    evidence = ending.result.evidence
    assert {each.split for each in evidence.comparisons} == {"validation", "test"}
    assert evidence.pairs and evidence.sets and evidence.ensemble
    take_look(Plan(sweep), store, ending.ranking)
    shown = shown_network(ending.ranking, ending.result.recommended)
    keep_mistakes(store, shown, data, ending.ranking.rule.scaling)
    assert load_mistakes(store)
    page = StoredSweep(store, Plan(sweep), ending.ranking).report(evidence)
    assert "Risk–coverage curve on the test split" in page
    assert len(decoded) == 18  # both splits of 9 trials
    assert set(decoded.values()) == {1}


@pytest.mark.parametrize(("kept", "again"), [(3, 0), (2, 3), (1, 3), (0, 3)])
def test_the_rows_used_last_are_kept_up_to_a_size(
    tmp_path: Path, decoded: Counter[bytes], kept: int, again: int
) -> None:
    folders = [Folder(str(tmp_path / str(number))) for number in range(3)]
    for number, folder in enumerate(folders):
        write(folder, "test", some_rows(np.arange(20) % 10, number))
    size = some_rows(np.arange(20) % 10, 0).nbytes
    reader = KeptRows(kept * size)
    for _ in range(2):
        for number, folder in enumerate(folders):
            rows = reader.find(folder, "test")
            assert rows is not None
            np.testing.assert_array_equal(rows.logits, some_rows(rows.labels, number).logits)
    assert decoded.total() == 3 + again
    reader.find(folders[2], "test")
    assert decoded.total() == 3 + again + (kept == 0)


def test_missing_and_damaged_files_are_not_kept(tmp_path: Path) -> None:
    folder, reader = Folder(str(tmp_path)), KeptRows()
    assert reader.find(folder, "test") is None
    folder.write(predictions_file("test"), b"PAR1 cut")
    with pytest.raises(ValueError, match="Parquet"):
        reader.find(folder, "test")
    rows = some_rows(np.arange(20) % 10, 0)
    write(folder, "test", rows)
    found = reader.find(folder, "test")
    assert found is not None
    np.testing.assert_array_equal(found.logits, rows.logits)


def test_rows_that_readers_share_cannot_be_changed(tmp_path: Path) -> None:
    folder, reader = Folder(str(tmp_path)), KeptRows()
    write(folder, "test", some_rows(np.arange(20) % 10, 0))
    rows = reader.find(folder, "test")
    assert rows is not None
    with pytest.raises(ValueError, match="read-only"):
        rows.logits[0] = 0
    rows.tensors()[0].zero_()
    assert rows.logits.any()
