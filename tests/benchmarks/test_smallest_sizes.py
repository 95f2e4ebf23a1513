"""Benchmarks run at their smallest size, so that a change elsewhere cannot break them unnoticed.

The other benchmarks have their own tests, or train for hours.
"""

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.harness import ray_session
from tests.harness.command import run_forked

ROOT = Path(__file__).parents[2]
DIGITS = "benchmarks/tabular/digits.yaml"
QUICK = {
    "fast_recipes": "cifar10 --print",
    "gradients": "focal inverse_focal --gamma 2 4 --classes 3",
    "intervals": "--repetitions 2 --samples 100 --classes 2 --metrics ece --pool 300 --results TMP",
    "losses": "focal --rounds 1",
    "recommendation": "--classes 3 --samples 60 --repetitions 1 --laws normal",
    "tabular.findings": DIGITS,
    "tabular.priors": DIGITS,
    "tabular.structured": f"{DIGITS} --settings 1",
}
SLOW = {
    "clustered": "--repetitions 1 --groups 12 --sizes geometric --metrics nll",
    "detectable": "--repetitions 2 --samples 100",
    "differences": "--repetitions 2 --samples 100 --pool 1000 --laws 'label noise'",
    "durations": "texts --set training.epochs=1 --set selection.finalists=0 --debug",
    "event": "--samples 200 --draws 2",
    "further_sweeps": "--sweeps 2 --debug",
    "growth": "records 3",
    "heads": "--heads 6 --epochs 1 --samples 500 --debug",
    "judging": "--samples 200 --classes 3 --runs 1",
    "memory": "--images 64",
    "metrics": "--samples 100 --classes 3 --threads 1",
    "overhead": "--trials 2 --peer-trials 2",
    "power": "--repetitions 1 --samples 200 --truths 0.02 --large 2000",
    "quickstart": "--set training.epochs=1 --set search.trials=2 --set selection.finalists=0 "
    "--set tracking.register_model=false --debug",
    "selection": "--repetitions 2 --samples 300 --finalists 2",
    "tabular.coverage": DIGITS,
    "tabular.regret": f"{DIGITS} --replays 1 --only",
    "tabular.temperatures": DIGITS,
    "training": "--samples 64 --batch-size 32 --shape 1 8 8 --rounds 1 --seeds 1 --epochs 1",
}
ON_RAY = ("memory", "overhead")
BY_HAND = {  # take minutes
    "tabular.posthoc": DIGITS,
    "tabular.several": f"{DIGITS} --folder TMP --replays 1",
}
COMMANDS = [
    *(pytest.param(name, text, id=name) for name, text in QUICK.items()),
    *(
        pytest.param(name, text, id=name, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])
        for name, text in SLOW.items()
    ),
    *(
        pytest.param(name, text, id=name, marks=[pytest.mark.by_hand, pytest.mark.timeout(1200)])
        for name, text in BY_HAND.items()
    ),
]


@pytest.mark.parametrize(("name", "arguments"), COMMANDS)
def test_it_prints_its_table(
    name: str,
    arguments: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = shlex.split(arguments.replace("TMP", str(tmp_path / "results.jsonl")))
    monkeypatch.setattr(sys, "argv", [name, *words])
    monkeypatch.setattr(subprocess, "run", run_forked)  # forks, as imports take seconds
    monkeypatch.chdir(ROOT)
    if name in ON_RAY:
        ray_session.start()
    threads = torch.get_num_threads()
    try:
        importlib.import_module(f"benchmarks.{name}").main()
    finally:
        torch.set_num_threads(threads)
    assert len(capfd.readouterr().out.splitlines()) >= 2
    assert os.getcwd() == str(ROOT)
