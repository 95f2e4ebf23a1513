"""Estimates the duration of an epoch by timing a few steps of the baseline."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from trainables.contract.config import TrainingConfig
from trainables.data.core.base import Dataset
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import model_for, without_weights
from trainables.runtime.threads import few_threads

_BATCHES = 2  # batches of the warm-up, and of the first measurement


def seconds_per_epoch(
    model: str,
    options: Mapping[str, Any],
    dataset: Dataset,
    config: TrainingConfig,
    seconds: float = 1.5,
) -> float:
    """Estimates the seconds of an epoch of cross-entropy training, with its validation.

    It trains on an increasing number of samples for about ``seconds``, on the first GPU that
    PyTorch sees, else on one CPU thread, like a trial by default. Metrics and checkpoints are not
    included, so short epochs take longer than estimated. Published weights are not downloaded;
    ``auto`` precision is float32.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.random.fork_rng(), few_threads(0):
        count = min(_BATCHES * config.batch_size, len(dataset.train))
        deadline = time.perf_counter() + seconds
        trained = 0.0
        while True:
            some = replace(
                dataset,
                train=dataset.train.first(count),
                validation=dataset.validation.first(count),
            )
            trainer = Trainer(
                model_for(dataset, model, without_weights(model, options)),
                make_loss("cross_entropy", dataset.num_classes),
                some,
                replace(config, precision="float32") if config.precision == "auto" else config,
                seed=0,
                device=device,
            )
            if not trained:
                trainer.train_epoch()  # the first steps are slower
            start = time.perf_counter()
            trainer.train_epoch()
            if device.type == "cuda":
                torch.cuda.synchronize()
            between = time.perf_counter()
            trainer.predict(some.validation)
            end = time.perf_counter()
            trained = (between - start) / len(some.train)
            predicted = (end - between) / len(some.validation)
            if end >= deadline or count == len(dataset.train):
                return trained * len(dataset.train) + predicted * len(dataset.validation)
            affordable = (deadline - end) / (trained + predicted)
            count = min(len(dataset.train), max(2 * count, int(affordable / 2)))
