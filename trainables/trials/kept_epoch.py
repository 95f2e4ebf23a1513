"""The epoch whose network is the result of a trial, if that is not the last one."""

import math
from typing import Any

from trainables.contract.config import TrainingConfig
from trainables.contract.metric_names import MetricName
from trainables.engine.training import Trainer


class LowestEpoch:
    """The weights of the epoch with the lowest validation metric, after ``training.keep_after``."""

    def __init__(self, training: TrainingConfig) -> None:
        self.metric = MetricName.parse(training.keep).metric
        self.after = training.keep_after * training.epochs
        self.epoch = 0
        self._value = math.inf
        self._weights: dict[str, Any] = {}

    def offer(self, trainer: Trainer, value: float) -> None:
        """Keep the weights of the present epoch if its value is the lowest so far."""
        if trainer.epoch > self.after and value < self._value:
            weights = trainer.model.state_dict()
            self.epoch, self._value = trainer.epoch, value
            self._weights = {name: each.detach().cpu().clone() for name, each in weights.items()}

    def restore(self, trainer: Trainer) -> None:
        """Give the model the kept weights; its epoch stays."""
        trainer.model.load_state_dict(self._weights)

    def state_dict(self) -> dict[str, Any]:
        """The state after the present epoch, for a checkpoint."""
        return {"epoch": self.epoch, "value": self._value, "weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        self.epoch, self._value, self._weights = state["epoch"], state["value"], state["weights"]
