"""The epoch whose network is the result of a trial, if that is not the last one."""

import math
from typing import Any, Final

from torch import Tensor

from trainables.contract.config import TrainingConfig
from trainables.contract.metric_names import MetricName
from trainables.engine.training import Trainer
from trainables.metrics.inference.clusters import clusters_of
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc import cross_fitted
from trainables.posthoc.chosen import ENOUGH_ERRORS, exceeds_error, num_errors
from trainables.trials.outcome import Predictions, evaluate

GUARDED: Final = ("nll", "refinement")


class LowestEpoch:
    """The weights of the epoch with the lowest validation metric, after ``training.keep_after``."""

    def __init__(self, training: TrainingConfig) -> None:
        self.keep = training.keep
        self.after = training.keep_after * training.epochs
        self.epoch = 0
        self._value = math.inf
        self._weights: dict[str, object] = {}
        self._losses: Tensor | None = None  # of the lowest epoch, if it is guarded

    def offer(
        self,
        trainer: Trainer,
        validation: Predictions,
        decisions: int = 1,
        units: Tensor | None = None,
    ) -> None:
        """Keep the weights of the present epoch if its value is the lowest so far.

        A guarded epoch gives way to the last one unless it is better by more than chance. `units`
        is the sample or group of each row (N,), if rows are not independent.
        """
        if trainer.epoch <= self.after:
            return
        losses = None
        if self.keep in GUARDED:
            losses = epoch_losses(validation, refined=self.keep == "refinement", units=units)
            value = float(losses.mean())
        else:
            metric = MetricName.parse(self.keep).metric
            value = evaluate(*validation, [metric], decisions)[metric]
        last = trainer.epoch == trainer.config.epochs
        chance = losses is not None and last and not self._is_shown(losses, validation, units)
        if value < self._value or chance:
            weights = trainer.model.state_dict()
            self.epoch, self._value, self._losses = trainer.epoch, value, losses
            self._weights = {name: each.detach().cpu().clone() for name, each in weights.items()}

    def _is_shown(self, last: Tensor, validation: Predictions, units: Tensor | None) -> bool:
        return self._losses is not None and is_better(self._losses, last, validation, units)

    def restore(self, trainer: Trainer) -> None:
        """Give the model the kept weights; its epoch stays."""
        trainer.model.load_state_dict(self._weights)

    def state_dict(self) -> dict[str, object]:
        """The state after the present epoch, for a checkpoint."""
        return {
            "epoch": self.epoch,
            "value": self._value,
            "weights": self._weights,
            "losses": self._losses,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        self.epoch, self._value, self._weights = state["epoch"], state["value"], state["weights"]
        self._losses = state.get("losses")


def epoch_losses(validation: Predictions, *, refined: bool, units: Tensor | None = None) -> Tensor:
    """Log losses (N,) of an epoch; if `refined`, after a cross-fitted temperature."""
    logits, labels = validation
    logits = logits.double()
    scaled = cross_fitted(logits, labels, clusters=units) if refined else logits
    return log_losses_of_logits(scaled, labels)


def is_better(
    losses: Tensor, last: Tensor, validation: Predictions, units: Tensor | None = None
) -> bool:
    """Whether an epoch's log losses (N,) are lower than those of the last one, by more than chance.

    That is one standard error of the paired difference, and only with enough errors of the last
    epoch, whose predictions are `validation`: otherwise few samples decide.
    """
    clusters = clusters_of(units, len(last))
    return num_errors(*validation) >= ENOUGH_ERRORS and exceeds_error(last - losses, clusters)
