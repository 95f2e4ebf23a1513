"""Recorded trials of many datasets keep the logits of every second epoch."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.tabular import wide
from benchmarks.tabular.curves import as_table, of_common_seeds, read_trials
from benchmarks.tabular.predictions import SPLITS
from benchmarks.tabular.record import pack, write
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from trainables import metrics as M
from trainables.contract.setting import BASELINE, Setting

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


def test_an_interrupted_recording_has_the_baseline_and_two_seeds_first(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SWEEP.replace("[focal]", "[brier, focal]"))
    sweep = load_sweep(str(path))
    trials = wide.order(sweep, 10)
    published = set(SearchSpace(sweep.losses).initial_settings(10)) - {BASELINE}
    assert [(s, seed) for _, s, seed in trials[:5]] == [(BASELINE, seed) for seed in range(5)]
    settings = {s for _, s, _ in trials[5:]}
    assert settings > published
    first, rest = trials[5 : 5 + 2 * len(settings)], trials[5 + 2 * len(settings) :]
    assert {(s, seed) for _, s, seed in first} == {(s, seed) for s in settings for seed in (0, 1)}
    assert {seed for _, _, seed in rest} == {2}
    assert [s.loss for _, s, _ in first[-2:]] == ["brier", "brier"]  # it is not replayed
    assert len({(number, seed) for number, _, seed in trials}) == len(trials)


def test_packing_again_adds_nothing(tmp_path: Path) -> None:
    table, folder, file = as_table(BASELINE, 0, [{"epoch": 1}]), tmp_path / "a", tmp_path / "b"
    folder.mkdir()
    for _ in range(2):
        write(table, folder / "0000-0.parquet")
        pack(folder, file)
    assert len(list(read_trials(file))) == 1
    assert not list(folder.glob("*.parquet"))


def test_settings_with_a_second_seed_are_used() -> None:
    trials = [(Setting("focal", {"gamma": float(g)}), 0, []) for g in range(4)]
    second = (trials[0][0], 1, [])
    assert list(of_common_seeds([*trials, second, (trials[0][0], 2, [])])) == [trials[0], second]
