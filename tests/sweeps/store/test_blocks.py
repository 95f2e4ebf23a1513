"""Blocks with many records in one file are read like the files of the trials."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.search.record import TrialRecord
from sweeps.service.running import run_sweep
from sweeps.store.blocks import SIZE, BlockWriter, block_numbers
from sweeps.store.sweep_store import SweepStore
from tests.builders import make_sweep, new_store, trial

COUNT = 2 * SIZE + 7


@pytest.fixture
def records() -> list[TrialRecord]:
    return [trial(number, ended=1e9 + number) for number in range(COUNT)]


@pytest.fixture
def store(tmp_path: Path, records: list[TrialRecord]) -> SweepStore:
    return new_store(tmp_path, make_sweep("long"), records)


def names(store: SweepStore) -> list[str]:
    return (store.folder / "blocks").names()


def damage(store: SweepStore, *numbers: int) -> None:
    for number in numbers:
        store.trial_folder(number).write("trial.json", b"{")


def test_a_hundred_that_have_ended_are_read_from_one_file(
    store: SweepStore, records: list[TrialRecord]
) -> None:
    late = replace(records[150], state="running", ended=None)
    writer = BlockWriter(store.folder, [])
    for record in [*records[:150], late, *records[151:]]:
        writer.take(record)
    assert names(store) == ["00000.json"]
    writer.take(records[150])
    assert names(store) == ["00000.json", "00100.json"]
    assert block_numbers(store.folder) == set(range(200))
    damage(store, 5, 150, 203)  # only the last of them is read
    messages: list[str] = []
    assert store.load_records(messages.append) == records[:203] + records[204:]
    assert len(messages) == 1 and "00203/trial.json is damaged" in messages[0]


def test_a_record_that_changes_later_is_read_as_it_is(
    store: SweepStore, records: list[TrialRecord]
) -> None:
    writer = BlockWriter(store.folder, records)
    for record in (records[7], records[203]):
        record.complete({**record.outcome, "val_auroc": 0.5})
        store.save(record)
        writer.replace(record)
    assert names(store) == ["00000.json", "00100.json"]
    assert store.load_records() == records
    assert records[7].outcome["val_auroc"] == 0.5 != records[8].outcome.get("val_auroc")


@pytest.mark.parametrize("ended_before", [SIZE, SIZE - 1])
def test_a_trial_that_runs_again_is_read_from_its_own_file(
    store: SweepStore, records: list[TrialRecord], ended_before: int
) -> None:
    writer = BlockWriter(store.folder, [])
    for record in records[:ended_before]:
        writer.take(record)
    records[7].again()
    for record in (records[7], *records[ended_before:SIZE]):
        writer.take(record)
    assert names(store) == []
    records[7].state = "finished"
    writer.take(records[7])
    assert names(store) == ["00000.json"]


def test_a_resume_writes_what_is_missing(store: SweepStore, records: list[TrialRecord]) -> None:
    BlockWriter(store.folder, store.load_records())
    assert names(store) == ["00000.json", "00100.json"]
    assert store.load_records() == records


@pytest.mark.parametrize("content", [b"", b"[{}]", b"[3]", b"{}", b"[null]", b"\xff"])
def test_a_damaged_block_is_passed_over(
    store: SweepStore, records: list[TrialRecord], content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    BlockWriter(store.folder, records)
    (store.folder / "blocks").write("00000.json", content)
    with caplog.at_level(logging.WARNING, logger="calsweep"):
        assert store.load_records() == records
    assert ("blocks/00000.json" in caplog.text) == (content != b"{}")


def test_records_of_deleted_trials_are_not_read(
    store: SweepStore, records: list[TrialRecord]
) -> None:
    BlockWriter(store.folder, records)
    store.trial_folder(199).delete_tree()
    left = records[:199] + records[200:]
    assert store.load_records() == left
    BlockWriter(store.folder, left)
    assert names(store) == ["00000.json"]
    again = trial(199, "mbls", {"margin": 2.0}, ended=1e9)
    store.save(again)
    assert store.load_records() == [*records[:199], again, *records[200:]]


def test_a_block_that_cannot_be_written_stops_nothing(
    store: SweepStore, records: list[TrialRecord], caplog: pytest.LogCaptureFixture
) -> None:
    writer = BlockWriter(store.folder, [])
    Path(store.folder.path, "blocks").write_text("a file where the folder is to be")
    with caplog.at_level(logging.WARNING, logger="calsweep"):
        for record in records:
            writer.take(record)
    assert "blocks/00100.json" in caplog.text
    Path(store.folder.path, "blocks").unlink()
    assert store.load_records() == records


def test_what_killed_writers_left_of_trials_that_continue_is_cleared_away(
    store: SweepStore, records: list[TrialRecord]
) -> None:
    BlockWriter(store.folder, records)
    left = [
        Path(folder.path) / ".tmp-0123"
        for folder in (store.folder, store.folder / "blocks", store.trial_folder(203))
    ]
    for path in left:
        path.write_bytes(b"half of")
    with store.locked():
        assert not any(path.exists() for path in left)
    assert store.load_records() == records


def test_a_running_sweep_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.store.blocks.SIZE", 1)
    sweep = make_sweep(
        "long",
        dataset={"name": "digits", "train_samples": 100},
        model={"name": "small_cnn", "width": 4},
        training={"epochs": 1},
        search={"trials": 2},
        selection={"finalists": 0},
    )
    ended = run_sweep(sweep, str(tmp_path), debug=True)
    written = names(SweepStore(str(tmp_path), "long"))
    assert written == [f"{record.number:05d}.json" for record in ended.records] != []
