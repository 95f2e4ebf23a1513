"""Recorded trials of many datasets keep the logits of every second epoch."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.tabular import wide
from benchmarks.tabular.curves import read_trials
from benchmarks.tabular.predictions import SPLITS
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from trainables import metrics as M
from trainables.contract.setting import BASELINE

SWEEP = """
name: small
dataset: {name: digits}
model: {name: mlp, width: 16}
losses: [focal]
training: {epochs: 3, batch_size: 256, lr: 0.05, augmentation: none}
scheduler: {grace_period: 1}
"""


def test_logits_of_every_second_and_the_last_epoch(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SWEEP)
    sweep = load_sweep(str(path))
    dataset = load_data(sweep)
    at = tmp_path / "0000-1.parquet"
    wide.record(sweep, dataset, BASELINE, 1, at)

    [(setting, seed, history)] = read_trials(at)
    assert (setting, seed) == (BASELINE, 1)
    logits = pq.read_table(at.with_suffix(".logits"))
    assert len(logits) == 2  # epochs 2 and 3
    for split, prefix in zip(SPLITS, ("val", "test"), strict=True):
        labels = torch.from_numpy(np.array(getattr(dataset, split).labels))
        for row, entry in zip(logits[split], history[1:], strict=True):
            values = torch.tensor(row.as_py(), dtype=torch.float64).reshape(len(labels), -1)
            nll = M.negative_log_likelihood(values.softmax(dim=1), labels)
            assert abs(nll - entry[f"{prefix}_nll"]) < 2e-3  # float16


def test_an_interrupted_recording_has_the_baseline_and_published_settings_first(
    tmp_path: Path,
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SWEEP)
    sweep = load_sweep(str(path))
    trials = wide.order(sweep, 10)
    published = SearchSpace(sweep.losses).initial_settings(10)
    assert [(s, seed) for _, s, seed in trials[:5]] == [(BASELINE, seed) for seed in range(5)]
    first = trials[5 : 5 + 3 * (len(published) - 1)]
    assert {s for _, s, _ in first} == set(published) - {BASELINE}
    assert len({(number, seed) for number, _, seed in trials}) == len(trials)
