"""Predictions of recorded networks match their curves; post-hoc methods on them."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.tabular import posthoc, predictions, record
from benchmarks.tabular.curves import as_table, read_trials
from benchmarks.tabular.predictions import SPLITS, Predicted, read_predicted
from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import load_sweep
from trainables import metrics as M
from trainables.contract.setting import BASELINE, Setting
from trainables.posthoc import TemperatureScaling

TABULAR = Path(predictions.__file__).parent
SWEEP = """
name: small
dataset: {name: digits}
model: {name: mlp, width: 16}
losses: [focal]
training: {epochs: 2, batch_size: 256, lr: 0.05, augmentation: none}
scheduler: {grace_period: 1}
"""
FOCAL = Setting("focal", {"gamma": 2.0})


@pytest.fixture(scope="module")
def sweep_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep file of two recorded settings with two seeds."""
    path = tmp_path_factory.mktemp("tabular") / "small.yaml"
    path.write_text(SWEEP)
    sweep = load_sweep(str(path))
    dataset = load_data(sweep)
    parts = path.with_suffix(".parts")
    parts.mkdir()
    for number, setting in enumerate((BASELINE, FOCAL)):
        for seed in (0, 1):
            history = record.record(sweep, dataset, setting, seed, [1, 2])
            record.write(as_table(setting, seed, history), parts / f"{number}-{seed}.parquet")
    record.pack(parts, path.with_suffix(".parquet"))
    return path


def predict(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["predictions", *arguments])
    predictions.main()


def check_against_curves(path: Path) -> int:
    """Check that metrics of the predictions match the curves; returns the number of settings."""
    curves = {(setting, seed): history for setting, seed, history in read_trials(path)}
    errors = []
    for predicted in read_predicted(path.with_suffix(".predictions.parquet")):
        last = curves[predicted.setting, predicted.seed][-1]
        for split, prefix in zip(SPLITS, ("val", "test"), strict=True):
            labels = torch.from_numpy(predicted.labels[split])
            probs = torch.from_numpy(predicted.logits[split]).double().softmax(dim=1)
            assert M.error_rate(probs, labels) == pytest.approx(last[f"{prefix}_error"], abs=1e-6)
            assert M.brier_score(probs, labels) == pytest.approx(last[f"{prefix}_brier"], abs=1e-4)
            error = abs(M.expected_calibration_error(probs, labels) - last[f"{prefix}_ece"])
            assert error < 3.5 / len(labels)  # rounding may move some samples to the next bin
            errors.append(error)
    assert np.mean(errors) < 1e-4
    return len(errors) // 2


def test_predictions_of_recorded_networks_match_their_curves(
    sweep_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    predict(monkeypatch, str(sweep_file))
    predict(monkeypatch, str(sweep_file))  # all trials are recorded, so nothing is trained
    assert "4 trials" in capsys.readouterr().out
    predict(monkeypatch, str(sweep_file), "--pack")
    curves = sweep_file.with_suffix(".parquet")
    kept = list(read_predicted(sweep_file.with_suffix(".predictions.parquet")))
    assert [(each.setting, each.seed) for each in kept] == [(BASELINE, 0), (FOCAL, 0)]
    assert check_against_curves(curves) == 2
    for _, _, history in read_trials(curves):
        assert "val_ece_calibrated_high" not in history[0]
        assert 0 < history[1]["val_ece_calibrated"] < history[1]["val_ece_calibrated_high"]


def test_a_network_with_different_metrics_is_rejected(
    sweep_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "small.yaml"
    copy.write_text(SWEEP.replace("0.05", "0.04"))
    copy.with_suffix(".parquet").write_bytes(sweep_file.with_suffix(".parquet").read_bytes())
    with pytest.raises(SystemExit, match="record the trials anew"):
        predict(monkeypatch, str(copy))
    assert not list(copy.with_suffix(".predictions.parts").glob("*.parquet"))


@pytest.mark.parametrize("name", ["digits", "fashion_mnist", "cifar10"])
def test_the_predictions_in_the_repository_are_those_of_the_curves(name: str) -> None:
    assert check_against_curves(TABULAR / f"{name}.parquet") > 45


def test_a_method_after_training_is_fitted_on_the_validation_split() -> None:
    random = np.random.default_rng(0)
    truth = random.normal(0, 2, (6000, 10))
    labels = np.array(
        [random.choice(10, p=p) for p in np.exp(truth) / np.exp(truth).sum(1)[:, None]]
    )
    too_sure = (3 * truth).astype(np.float32)
    halves = slice(None, 3000), slice(3000, None)
    predicted = Predicted(
        BASELINE,
        0,
        {split: too_sure[half] for split, half in zip(SPLITS, halves, strict=True)},
        {split: labels[half] for split, half in zip(SPLITS, halves, strict=True)},
    )
    before, scaled = (posthoc.judge(predicted, make) for make in (None, TemperatureScaling))
    assert before.ece > 0.15
    assert scaled.ece < 0.04
    assert posthoc.differs(scaled, before) == -1
    assert posthoc.differs(before, scaled) == 1
    assert posthoc.differs(scaled, scaled) == 0


def test_the_choice_after_a_method_is_within_the_guard() -> None:
    judged = [
        posthoc.Judged(BASELINE, 0.03, 0.10, 0.03, torch.zeros(2)),
        posthoc.Judged(FOCAL, 0.02, 0.105, 0.02, torch.zeros(2)),
        posthoc.Judged(Setting("focal", {"gamma": 9.0}), 0.0, 0.2, 0.0, torch.zeros(2)),
    ]
    assert posthoc.choose(judged, guard=0.01).setting == FOCAL
