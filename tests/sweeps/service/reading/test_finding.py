"""Read-only commands: `calsweep show`, `list`, `compare`, `watch`, `metrics`; and `delete`."""

import re
import time
from pathlib import Path

import pytest

from sweeps.results.explanation import result_of
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.reading.finding import look_at, read_answer
from sweeps.store.sweep_store import SweepStore
from sweeps.terminal.watching import ended
from tests.builders import baseline, make_sweep, new_store, trial
from tests.harness.command import calsweep, exit_code, start_calsweep
from trainables.metrics import METRIC_NAMES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sweeps: a finished one and an interrupted one."""
    done = make_sweep("done")
    records = [baseline(val_ece=0.05), trial(1, val_ece=0.02)]
    store = new_store(tmp_path / "calsweep-store", done, records)
    ended = {"ends": ["The search ended by search.max_epochs = 9, after 2 settings."]}
    store.save_answer(result_of(Ranking(records, rule_of(done)), Plan(done)).to_json() | ended)
    (store.trial_folder(1) / "checkpoints").write("epoch_000001-0.pt", b"weights")
    cut_off = [baseline(), trial(1, state="running", history=[])]
    store = new_store(tmp_path / "calsweep-store", make_sweep("cut-off"), cut_off)
    (store.trial_folder(1) / "checkpoints").write("epoch_000002-0.pt", b"weights")
    return tmp_path


def test_show_prints_the_answer_again(folder: Path) -> None:
    short = calsweep(folder, "show", "done").stdout
    assert "Selected: focal" not in short
    assert "`calsweep show done --all` has the reasons and all verdicts" in short
    done = calsweep(folder, "show", "done", "--all")
    assert done.returncode == 0
    assert "Selected: focal γ=1 – the lowest val_ece, 0.0200" in done.stdout
    assert "not finished" not in done.stdout
    assert "The search ended by search.max_epochs = 9" in done.stdout
    cut_off = calsweep(folder, "show", "cut-off")
    assert "not finished; `calsweep resume cut-off` continues it" in cut_off.stdout
    _, found, _ = read_answer("cut-off", str(folder / "calsweep-store"))
    assert found.rows[-1].note == "not finished, at epoch 2"


def test_list_has_a_line_for_each_sweep(folder: Path) -> None:
    listed = calsweep(folder, "list").stdout.splitlines()
    lines = {line.split()[0]: line for line in listed}
    assert "focal γ=1, ECE 0.0200" in lines["done"]
    assert lines["done"].split()[1] == "finished"
    assert lines["cut-off"].split()[1] == "stopped"
    assert "no sweep in" in calsweep(folder, "list", "--storage", "elsewhere").stdout
    assert not (folder / "elsewhere").exists()


def test_compare_has_a_line_for_each_sweep_and_a_column_in_the_map(folder: Path) -> None:
    done = calsweep(folder, "compare", "done", "cut-off")
    assert done.returncode == 0, done.stderr
    printed = [line.split() for line in done.stdout.splitlines() if line]
    lines = {words[0]: words for words in reversed(printed)}  # the first line of each kind
    assert lines["done"][2:5] == ["focal", ".0200", ".1000"]
    assert lines["small_cnn"] == ["small_cnn", "γ=1"]  # below
    assert lines["focal"] == ["focal", ".0200", "γ=1", "–"]
    assert lines["cross_entropy"] == ["cross_entropy", ".0500", "–", ".1000", "–"]
    assert printed.index(lines["focal"]) < printed.index(lines["cross_entropy"])
    assert "no sweep named 'dune' in" in calsweep(folder, "compare", "done", "dune").stderr


def test_several_sweeps_have_a_page_of_their_own(folder: Path) -> None:
    done = calsweep(folder, "report", "--compare", "done", "cut-off", "--output", "page.html")
    assert done.stdout == f"written: {folder / 'page.html'}\n", done.stderr
    assert "2 sweeps compared" in (folder / "page.html").read_text()
    for words, message in (
        (("done", "cut-off"), "`calsweep report --compare done cut-off` writes one page"),
        (("--compare", "done", "cut-off", "--format", "pdf"), "--format pdf: with --compare"),
    ):
        refused = calsweep(folder, "report", *words)
        assert refused.returncode == 2
        assert message in refused.stderr


def test_a_table_of_one_sweep_is_printed_or_written(folder: Path) -> None:
    metrics = ("--metrics", "error,ece,ece_scaled,nll,nll_scaled", "--format", "latex")
    printed = calsweep(folder, "table", "done", *metrics).stdout
    assert printed.count("digits") == 1 and "ECE with T & NLL & NLL with T" in printed
    done = calsweep(folder, "table", "done", *metrics, "--output", "table.tex")
    assert done.stdout == f"written: {folder / 'table.tex'}\n"
    assert (folder / "table.tex").read_text() == printed


def test_watch_follows_a_sweep_until_its_answer(folder: Path) -> None:
    sweep = make_sweep("cut-off")
    store = SweepStore(str(folder / "calsweep-store"), "cut-off")
    for epoch in (3, 12):
        (store.trial_folder(1) / "checkpoints").write(f"epoch_{epoch:06d}-0.pt", b"weights")
    glimpse = look_at("cut-off", str(folder / "calsweep-store"))
    assert glimpse.running == [("focal γ=1", 12, 200)]
    assert (ended(glimpse.overview.states), glimpse.epochs) == (1, 1 + 12)
    assert glimpse.planned > 50
    said = folder / "said.txt"
    with store.locked():  # like its driver
        process = start_calsweep(folder, "watch", "cut-off", output=said)
        while "\n" not in said.read_text():
            assert process.exitcode is None
            time.sleep(0.1)
        listed = calsweep(folder, "list").stdout
        assert re.search(r"^cut-off +running", listed, re.MULTILINE)
        assert said.read_text().startswith("1/58 trials · 1 running · 0 stopped early")
        shown = calsweep(folder, "show", "cut-off").stdout
        assert "still running; `calsweep watch cut-off` follows it" in shown
        records = [baseline(), trial(1, val_ece=0.02)]
        store.save(records[1])
        store.save_answer(result_of(Ranking(records, rule_of(sweep)), Plan(sweep)).to_json())
    assert exit_code(process) == 0
    assert "2/58 trials · 0 running" in said.read_text()
    assert re.search(r"^focal γ=1 .* selected", said.read_text(), re.MULTILINE)


def test_a_shell_completes_commands_and_names(folder: Path) -> None:
    def completed(words: str) -> list[str]:
        shell = {"_CALSWEEP_COMPLETE": "complete_bash", "COMP_WORDS": f"calsweep {words}"}
        shell["COMP_CWORD"] = str(len(words.split(" ")))
        done = calsweep(folder, **shell)
        assert not done.stderr
        return done.stdout.split()

    assert completed("rep") == ["report"]
    assert completed("show d") == ["done"]
    assert sorted(completed("compare ")) == ["cut-off", "done"]
    (folder / "calsweep-store").rename(folder / "elsewhere")
    (folder / "calsweep-store").mkdir()
    (folder / "calsweep-store/sweeps").write_text("cannot be read")
    assert completed("show d") == []


def test_delete_asks_and_deletes_what_it_says(folder: Path) -> None:
    sweep = folder / "calsweep-store/sweeps/done"
    refused = calsweep(folder, "delete", "done")  # without a terminal to confirm
    assert refused.returncode == 130
    assert sweep.exists()
    assert calsweep(folder, "delete", "done", "--checkpoints", "--yes").returncode == 0
    assert not (sweep / "trials/00001/checkpoints").exists()
    assert "Selected: focal" in calsweep(folder, "show", "done", "--all").stdout
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
