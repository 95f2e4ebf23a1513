"""The estimated duration of an epoch."""

import time

import pytest

from trainables.contract.config import TrainingConfig
from trainables.data import load_dataset
from trainables.engine.timing import seconds_per_epoch


def test_an_epoch_is_timed_without_training_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainables.engine import training

    trained = []
    usual = training.Trainer.train_epoch

    def count(self: training.Trainer) -> dict[str, float]:
        trained.append(len(self.dataset.train))
        time.sleep(0.001 * trained[-1])  # the estimate must include this
        return usual(self)

    monkeypatch.setattr(training.Trainer, "train_epoch", count)
    data = load_dataset("digits", seed=0)
    found = seconds_per_epoch("mlp", {}, data, TrainingConfig(batch_size=32), seconds=0.1)
    assert trained[:2] == [64, 64]
    assert max(trained) < len(data.train)
    assert found > 0.001 * len(data.train)
