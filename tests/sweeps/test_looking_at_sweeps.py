"""`calsweep show`, `list`, `delete` and `metrics`, which read the store and start nothing."""

from pathlib import Path

import pytest

from sweeps.results.explanation import answer
from sweeps.search.ranking import Ranking
from tests.builders import baseline, make_sweep, new_store, trial
from tests.harness.command import calsweep
from trainables.metrics import METRIC_NAMES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sweeps: one that came to its answer, one that was cut off."""
    done = make_sweep("done")
    records = [baseline(val_ece=0.05), trial(1, val_ece=0.02)]
    store = new_store(tmp_path / "calsweep-store", done, records)
    store.save_answer(answer(Ranking(records, done.rule), done), print)
    (store.trial_folder(1) / "checkpoints").write("epoch_000001-0.pt", b"weights")
    cut_off = [baseline(), trial(1, state="running", history=[])]
    new_store(tmp_path / "calsweep-store", make_sweep("cut-off"), cut_off)
    return tmp_path


def test_show_prints_the_answer_again(folder: Path) -> None:
    done = calsweep(folder, "show", "done")
    assert done.returncode == 0
    assert "Chosen: focal γ=1 – the lowest val_ece, 0.0200" in done.stdout
    assert "not finished" not in done.stdout
    cut_off = calsweep(folder, "show", "cut-off")
    assert "not finished; `calsweep resume cut-off` goes on" in cut_off.stdout


def test_list_has_a_line_for_each_sweep(folder: Path) -> None:
    listed = calsweep(folder, "list").stdout.splitlines()
    lines = {line.split()[0]: line for line in listed}
    assert "focal γ=1, ECE 0.0200" in lines["done"]
    assert "1, not finished" in lines["cut-off"]
    assert "no sweep in" in calsweep(folder, "list", "--storage", "elsewhere").stdout
    assert not (folder / "elsewhere").exists()


def test_delete_asks_and_deletes_what_it_says(folder: Path) -> None:
    sweep = folder / "calsweep-store/sweeps/done"
    refused = calsweep(folder, "delete", "done")  # nobody there to say yes
    assert refused.returncode == 130
    assert sweep.exists()
    assert calsweep(folder, "delete", "done", "--checkpoints", "--yes").returncode == 0
    assert not (sweep / "trials/00001/checkpoints").exists()
    assert "Chosen: focal" in calsweep(folder, "show", "done").stdout
    assert calsweep(folder, "delete", "done", "--yes").returncode == 0
    assert not sweep.exists()
    again = calsweep(folder, "delete", "done", "--yes")
    assert again.returncode == 2
    assert "no sweep named 'done'" in again.stderr


def test_metrics_are_listed_with_the_way_that_is_better(tmp_path: Path) -> None:
    rows = [line.split() for line in calsweep(tmp_path, "metrics").stdout.splitlines()]
    ways = {row[0]: row[1] for row in rows if len(row) > 1 and row[0] in METRIC_NAMES}
    assert ways.keys() == set(METRIC_NAMES)
    assert ways["ece"] == "lower"
    assert ways["auroc"] == "higher"
