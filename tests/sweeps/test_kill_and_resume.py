"""SIGKILL at any moment, Ctrl-C or a closed terminal, then ``calsweep resume``: no loss."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from benchmarks.tabular.curves import Curves
from benchmarks.tabular.replay import replay
from sweeps.search.record import TrialRecord
from sweeps.search.space import SearchSpace
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from tests.builders import facts
from tests.harness.command import calsweep, exit_code, send_signal, start_calsweep
from tests.harness.tracked import runs_of

SWEEP = """
name: fragile
dataset: {name: digits, train_samples: 400}
model: {name: small_cnn, width: 8}
losses: [focal, cals_alm]
training: {epochs: 6, batch_size: 64, lr: 0.05}
search: {trials: 9, sampler: tpe}
scheduler: {grace_period: 2, reduction_factor: 2}
scaling: {max_concurrent: 1}
selection: {finalists: 1, seeds: 1}
"""


def finish(folder: Path, *arguments: str) -> None:
    process = start_calsweep(folder, *arguments, output=folder / "said.txt")
    assert exit_code(process) == 0, (folder / "said.txt").read_text()[-3000:]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[TrialRecord]:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "sweep.yaml").write_text(SWEEP)
    finish(folder, "run", "sweep.yaml", "--debug")  # gives what Ray gives, and sooner
    return SweepStore(str(folder / "calsweep-store"), "fragile").load_records()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_replay_of_its_curves_comes_to_the_same(undisturbed: list[TrialRecord]) -> None:
    sweep = parse_sweep(yaml.safe_load(SWEEP))
    trials = ((record.setting, record.seed, record.history) for record in undisturbed)
    curves = Curves(trials, SearchSpace(sweep.losses))
    replayed = replay(sweep, curves, 10, sweep.seeds)
    assert [facts(record) for record in replayed] == [facts(record) for record in undisturbed]


def in_the_first_trial(store: SweepStore) -> bool:
    return bool((store.trial_folder(0) / "checkpoints").names())


def in_the_search(store: SweepStore) -> bool:
    return (store.trial_folder(7) / "checkpoints").exists()


def in_the_finals(store: SweepStore) -> bool:
    return (store.trial_folder(9) / "checkpoints").exists()


MOMENTS: list[tuple[Callable[[SweepStore], bool], signal.Signals, tuple[str, ...]]] = [
    (in_the_first_trial, signal.SIGKILL, ()),
    (in_the_search, signal.SIGINT, ("--debug",)),  # gives what Ray gives, and sooner
    (in_the_finals, signal.SIGHUP, ()),
]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sweep_killed_again_and_again_resumes_to_the_same_trials(
    tmp_path: Path, undisturbed: list[TrialRecord]
) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    store = SweepStore(str(tmp_path / "calsweep-store"), "fragile")
    command = ("run", "sweep.yaml")
    ended_before: dict[int, float | None] = {}
    for moment, sent, options in MOMENTS:
        process = start_calsweep(tmp_path, *command, *options, output=tmp_path / "said.txt")
        deadline = time.monotonic() + 200
        while not moment(store):
            assert process.exitcode is None, (tmp_path / "said.txt").read_text()[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        send_signal(process, sent)
        assert exit_code(process, 90) == (-9 if sent == signal.SIGKILL else 130)
        ended_before |= {r.number: r.ended for r in store.load_records() if r.state != "running"}
        command = ("resume", "fragile")
    finish(tmp_path, *command, "--debug")

    said = (tmp_path / "said.txt").read_text()
    assert said.count("calsweep: interrupted; `calsweep resume fragile") == 2
    assert "Traceback" not in said

    records = store.load_records()
    assert [facts(record) for record in records] == [facts(record) for record in undisturbed]
    for number, ended in ended_before.items():
        assert records[number].ended == ended, "a finished trial was run again"

    runs = runs_of(tmp_path / "calsweep-store", "fragile")
    del runs[""]  # the run of the sweep
    assert {int(number): run.data.tags["state"] for number, run in runs.items()} == {
        record.number: record.state for record in records
    }
    json.dumps([dict(record.outcome) for record in records], allow_nan=False)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_detached_sweep_is_listed_and_stopped_and_a_taken_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("epochs: 6", "epochs: 900"))
    begun = calsweep(tmp_path, "run", "sweep.yaml", "--detach")
    assert begun.returncode == 0, begun.stderr
    assert "  stop      calsweep stop fragile\n" in begun.stdout
    assert (tmp_path / "fragile.log").exists()
    again = calsweep(tmp_path, "run", "sweep.yaml", "--detach")
    assert (again.returncode, "a sweep of this name exists" in again.stderr) == (2, True)
    assert listed(tmp_path) == ["fragile", "running"]
    stopped = calsweep(tmp_path, "stop", "fragile")
    assert stopped.stdout == "fragile: stopped; `calsweep resume fragile` continues it\n"
    assert listed(tmp_path) == ["fragile", "stopped"]


def listed(folder: Path) -> list[str]:
    """Name and state of the only sweep, below headings of one or more lines."""
    lines = calsweep(folder, "list").stdout.splitlines()
    return next(line.split()[:2] for line in lines if line.startswith("fragile"))
