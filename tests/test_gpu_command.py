"""`python -m benchmarks.gpu` without a GPU, and its parsing of the output of its parts."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import gpu_sweep
from benchmarks.gpu import SWEEPS, Part, Plan, earlier_parts, run, table, training_speed, worst_loss
from benchmarks.gpu_sweep import SWEEPS as SECTIONS
from benchmarks.gpu_sweep import passed
from sweeps.sweep_file.loading import parse_sweep
from tests.builders import baseline, trial


@pytest.mark.slow
def test_without_a_gpu_it_says_so_and_exits_with_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"],
        check=False,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("no GPU: PyTorch")
    assert done.stdout == ""


def test_the_figures_of_the_parts_are_read() -> None:
    losses = "loss  small_cnn  × CE  head  × CE\nfocal 6.1 1.02 9.1 1.04\nmmce 7.0 1.10 9.0 1.03\n"
    assert worst_loss(losses) == "slowest: mmce, 1.1 times cross-entropy (small_cnn)"
    training = "images/s   of alone\nours   8,000   0.80\nours, not captured   4,000   0.40\n"
    training += "plain DataLoader, float32   900   0.09\n"
    found = training_speed(
        training + "alone, contiguous, float32   1   0.1\nalone   10,000   1.00\n"
    )
    expected = "ours 8,000; ours, not captured 4,000; plain DataLoader, float32 900; alone 10,000"
    assert found == f"{expected} images/s"


def test_a_part_that_fails_or_takes_too_long_is_reported() -> None:
    reads = ("json.tool", "/no/such/file")
    failed = run(Plan("failing", 60, lambda printed: printed.strip(), reads))
    assert not failed.passed
    assert "No such file" in failed.figure
    late = run(Plan("late", 1, str, ("http.server", "0")))
    assert (late.passed, late.figure) == (False, "not done after 1 s")


def test_a_later_run_goes_on_with_the_missing_parts(tmp_path: Path) -> None:
    part = Part("losses", True, "1.1 times", 3.5, "all that it printed")
    path = tmp_path / "gpu.json"
    assert earlier_parts(path, "1 × H200") == {}
    path.write_text(json.dumps({"machine": "1 × H200", "parts": [asdict(part)]}))
    assert earlier_parts(path, "1 × H200") == {"losses": part}
    assert earlier_parts(path, "1 × H100") == {}
    assert "| losses | passed | 1.1 times | 4 s |" in table([part], "1 × H200")


def test_sweeps_of_the_command_are_valid() -> None:
    assert {name for _, name in SWEEPS} | {"workers"} == set(SECTIONS)
    for sections in SECTIONS.values():
        parse_sweep({"name": "gpu", "dataset": {"name": "digits"}, **sections})


@pytest.mark.parametrize("must_retry", [False, True])
def test_a_sweep_passes_if_exactly_the_expected_trials_were_retried(must_retry: bool) -> None:
    once, twice = baseline(), trial(1)
    once.runs, twice.runs = [[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]
    assert passed([once], must_retry) is not must_retry
    assert passed([twice], must_retry) is must_retry
    assert not passed([once, twice], must_retry)
    failed = trial(2, state="failed")
    failed.runs = (twice if must_retry else once).runs
    assert not passed([twice if must_retry else once, failed], must_retry)


@pytest.mark.slow
def test_sweeps_of_the_command_run_without_a_gpu(
    ray_session: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    monkeypatch.setattr(sys, "argv", ["gpu_sweep", "assertion", "--cpu"])
    assert gpu_sweep.main() == 0
    assert " trials, 0 failed, 0 retried, lowest val_ece 0." in capsys.readouterr().out
