"""Selects the class that runs a trial: a custom loop, one stage, or one of two stages."""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import torch

from trainables.contract.config import EncoderSetup, TrialSetup
from trainables.contract.messages import TrialConfig
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
    if config.role == "encoder":
        kind = FrozenRun if setup.encoder.frozen else EncoderRun
        return kind(dataset, replace(setup, training=setup.encoder.training), config, device)
    of_head = replace(setup.training, augmentation="none")
    return HeadRun(dataset, replace(setup, training=of_head), config, device)


class EncoderRun(TrialRun):
    """The first of two stages: trains the encoder of a seed and keeps it with its features."""

    _precision: ClassVar[type[np.floating[Any]]] = np.float32  # of the features

    def _evaluate(self, trainer: Trainer) -> dict[str, float]:
        return self._save_later(trainer) if trainer.epoch == self.training.epochs else {}

    def _save_later(self, trainer: Trainer) -> dict[str, float]:
        """Queues the encoder with its features; returns how refined these are."""
        folder = two_stage.encoder_folder(_encoder(self.setup).uri, self.config.seed)
        frozen = two_stage.frozen_features(trainer)
        known = folder, trainer.model.encoder, frozen, self._precision
        self._unsaved.append(partial(two_stage.save_encoder, *known))
        return two_stage.refinement_losses(frozen)


class FrozenRun(EncoderRun):
    """Keeps a network that is not trained, with its features in half precision."""

    _precision = np.float16

    def _make_model(self) -> Classifier:
        model = super()._make_model()
        if (path := _encoder(self.setup).checkpoint) is not None:
            two_stage.load_encoder_weights(model, path)
        return model

    def _train_epoch(self) -> None:
        trainer = self._trainer
        assert trainer is not None
        trainer.epoch = self.training.epochs
        entry = self._entry(trainer.epoch) | self._save_later(trainer)
        self._keep(entry, {"trainer": trainer.state_dict()})


class HeadRun(TrialRun):
    """The second of two stages: trains a head on the frozen encoder of its seed."""

    def _read(self) -> None:
        super()._read()
        encoder = _encoder(self.setup)
        folder = two_stage.encoder_folder(encoder.uri, encoder.seed_of(self.config.seed))
        self.data = two_stage.with_features(self.dataset, _features(folder))

    def _make_model(self) -> Classifier:
        return two_stage.head_for(self.dataset, _encoder(self.setup))


def _encoder(setup: TrialSetup) -> EncoderSetup:
    assert setup.encoder is not None
    return setup.encoder


@lru_cache(maxsize=2)
def _features(folder: Folder) -> dict[str, np.ndarray]:
    """The encoder's features as float32, cached for the next trial of this process."""
    return {
        split: features.astype(np.float32, copy=False)
        for split, features in two_stage.load_features(folder).items()
    }
