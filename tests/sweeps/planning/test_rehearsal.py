"""Reaction to the first epoch on a GPU, with synthetic reports of a worker."""

from typing import Any

import pytest

from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.rehearsal import Rehearsal, findings
from sweeps.search.plan import Plan
from sweeps.sweep_file.loading import parse_sweep
from tests.builders import Noted, baseline, make_sweep, trial
from trainables.data.core.base import Dataset

NODES = [{"CPU": 16.0, "GPU": 1.0}]
FACTS = {"epoch": 1.0, "training_seconds": 0.5, "gpu_memory_share": 0.02, "gpu_memory": 1.6e9}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    found = load_data(make_sweep(dataset={"name": "digits", "train_samples": 200}))
    assert isinstance(found, Dataset)
    return found


def lines(dataset: Dataset, share: float, **facts: float) -> list[str]:
    sweep = make_sweep(scaling={"gpus_per_worker": share}, training={"precision": "bfloat16"})
    return findings(Plan(fit_to_data(sweep, dataset)), dataset, FACTS | facts, NODES)


def test_a_suitable_share_is_kept(dataset: Dataset) -> None:
    (line,) = lines(dataset, 0.125)
    assert line.startswith("First epoch: 1.6 GB of GPU memory (estimated: 0.")
    assert line.endswith("400 samples/s, bfloat16.")


def test_a_share_that_is_far_too_large_gets_a_better_one(dataset: Dataset) -> None:
    assert lines(dataset, 1.0)[1] == (
        "By this measurement 8 trials fit a GPU: scaling.gpus_per_worker = 0.125 is better than 1."
    )


def test_a_share_that_is_too_small_gets_a_better_one(dataset: Dataset) -> None:
    found = lines(dataset, 0.125, gpu_memory=30e9, gpu_memory_share=0.375)
    assert found[1].startswith("By this measurement 2 trials fit a GPU: scaling.gpus_per_worker = ")


def test_a_custom_loop_reports_no_seconds_of_training(dataset: Dataset) -> None:
    own_loop = {"name": "own", "dataset": "digits", "losses": ["focal"]}
    sweep = parse_sweep({**own_loop, "trainable": "benchmarks.gpu_loops:train"})
    facts = {name: value for name, value in FACTS.items() if name != "training_seconds"}
    assert findings(Plan(sweep), dataset, facts, NODES) == ["First epoch: 1.6 GB of GPU memory."]


def test_it_is_reported_once_for_the_baseline_on_a_gpu(dataset: Dataset) -> None:
    def reported(*records: Any) -> int:
        said: list[str] = []
        sweep = fit_to_data(make_sweep(scaling={"gpus_per_worker": 0.125}), dataset)
        rehearsal = Rehearsal(Plan(sweep), dataset, Noted(said), lambda: NODES)
        for record in records:
            rehearsal.take(record)
        return len(said)

    first = baseline(history=[FACTS], state="running")
    assert reported(first, first) == 1
    assert reported(trial(1, history=[FACTS])) == 0
    on_cpu = {k: v for k, v in FACTS.items() if not k.startswith("gpu")}
    assert reported(baseline(history=[on_cpu])) == 0
