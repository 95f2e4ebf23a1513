"""Selects the class that runs a trial: a custom loop, one stage, or one of two stages."""

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import torch

from trainables.contract.config import EncoderSetup, TrainingConfig, TrialSetup
from trainables.contract.report import TrialConfig
from trainables.data.core.base import Data
from trainables.engine.training import Trainer
from trainables.files.storage import Folder
from trainables.models import Classifier
from trainables.trials import two_stage
from trainables.trials.loop_run import LoopRun
from trainables.trials.trial import CPU, TrialRun


def make_run(
    dataset: Data, setup: TrialSetup, config: TrialConfig, device: torch.device = CPU
) -> TrialRun:
    """The run of a trial: a custom loop, one stage, or the stage that its role selects."""
    if setup.own_loop:
        return LoopRun(dataset, setup, config, device)
    if setup.encoder is None:
        return TrialRun(dataset, setup, config, device)
    kind = EncoderRun if config.role == "encoder" else HeadRun
    return kind(dataset, setup, config, device)


class EncoderRun(TrialRun):
    """The first of two stages: trains the encoder of a seed and keeps it with its features."""

    def _recipe(self) -> TrainingConfig:
        return _encoder(self.setup).training

    def _evaluate(self, trainer: Trainer) -> dict[str, float]:
        if trainer.epoch == self.training.epochs:
            frozen = two_stage.frozen_features(trainer)
            folder = two_stage.encoder_folder(_encoder(self.setup).uri, self.config.seed)
            encoder = trainer.model.encoder
            self._unsaved.append(partial(two_stage.save_encoder, folder, encoder, frozen))
        return {}


class HeadRun(TrialRun):
    """The second of two stages: trains a linear head on the frozen encoder of its seed."""

    def _recipe(self) -> TrainingConfig:
        return replace(self.setup.training, augmentation="none")

    def _read(self) -> None:
        super()._read()
        folder = two_stage.encoder_folder(_encoder(self.setup).uri, self.config.seed)
        self.data = two_stage.with_features(self.dataset, _features(folder))

    def _make_model(self) -> Classifier:
        return two_stage.linear_head(self.dataset)


def _encoder(setup: TrialSetup) -> EncoderSetup:
    assert setup.encoder is not None
    return setup.encoder


@lru_cache(maxsize=2)
def _features(folder: Folder) -> dict[str, np.ndarray]:
    """The encoder's features, cached for the next trial of this process."""
    return two_stage.load_features(folder)
