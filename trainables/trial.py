"""One trial from start to end, epoch by epoch, resumable after any of them. Free of Ray."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

from trainables import metrics as M
from trainables.checkpoints import load_checkpoint, save_checkpoint
from trainables.config import TrialSetup, trial_folder
from trainables.data.base import Dataset
from trainables.losses import make_loss
from trainables.models import make_model
from trainables.outcome import summarise, write_predictions
from trainables.storage import Folder
from trainables.training import DivergedError, Trainer, default_device

EPOCH_METRICS = ("nll", "error", "ece", "adaptive_ece", "brier")


class TrialRun:
    """Trains the classifier of one trial and keeps its folder.

    Args:
        dataset: The data.
        setup: What all trials of the sweep share.
        config: ``number``, ``loss``, ``hyperparameters``, ``seed`` of this trial.
    """

    def __init__(self, dataset: Dataset, setup: TrialSetup, config: dict[str, Any]) -> None:
        self.dataset = dataset
        self.setup = setup
        self.config = config
        self.folder = Folder(setup.trials_uri) / trial_folder(config["number"])
        self.history: list[dict[str, float]] = []
        self._trainer: Trainer | None = None

    def advance(self) -> dict[str, Any]:
        """Train one more epoch.

        The first call after an interruption reports the last epoch of the checkpoint once more
        instead: that report may have been lost with the process that was to receive it.

        Returns:
            The metrics of the epoch (``epoch``, ``timestamp``, ``train_loss``, ``lr``,
            ``val_nll`` ...), after an epoch of ``setup.outcome_epochs`` those of
            :func:`~trainables.outcome.summarise` too, and ``done``. A trial that cannot go on
            returns ``failure``, the reason, and ``done``.
        """
        try:
            if self._trainer is None:
                self._trainer = self._make_trainer()
                if self.history:
                    return self._report()
            self._train_epoch(self._trainer)
        except (DivergedError, torch.OutOfMemoryError, MemoryError) as error:
            return {"failure": _reason(error), "done": True}
        return self._report()

    def _report(self) -> dict[str, Any]:
        last = self.history[-1]
        return {**last, "done": last["epoch"] >= self.setup.training.epochs}

    def _make_trainer(self) -> Trainer:
        torch.set_num_threads(self.setup.threads)
        torch.backends.cudnn.deterministic = True
        sys.path[:0] = [path for path in self.setup.user_paths if path not in sys.path]
        torch.manual_seed(self.config["seed"])
        model = make_model(
            self.setup.model,
            input_shape=self.dataset.input_shape,
            num_classes=self.dataset.num_classes,
            **self.setup.model_options,
        )
        loss = make_loss(
            self.config["loss"],
            num_classes=self.dataset.num_classes,
            **self.config["hyperparameters"],
        )
        trainer = Trainer(
            model,
            loss,
            self.dataset,
            self.setup.training,
            seed=self.config["seed"],
            device=default_device(),
        )
        state = load_checkpoint(self.folder / "checkpoints")
        if state is not None:
            trainer.load_state_dict(state["trainer"])
            self.history = state["history"]
        return trainer

    def _train_epoch(self, trainer: Trainer) -> None:
        train_metrics = trainer.train_epoch()
        validation = trainer.predict(self.dataset.validation)
        trainer.adapt_loss(*validation)
        values = M.evaluate(*validation, names=EPOCH_METRICS)
        entry = {
            "epoch": trainer.epoch,
            "timestamp": time.time(),
            **train_metrics,
            **{f"val_{name}": value for name, value in values.items()},
        }
        if trainer.epoch in self.setup.outcome_epochs:
            test = trainer.predict(self.dataset.test)
            entry |= summarise(validation, test)
            write_predictions(self.folder, "validation", validation)
            write_predictions(self.folder, "test", test)
        self.history.append(entry)
        # The checkpoint comes last: an epoch that is in it is complete with all its files.
        save_checkpoint(
            self.folder / "checkpoints",
            trainer.epoch,
            {"trainer": trainer.state_dict(), "history": self.history},
        )


def _reason(error: BaseException) -> str:
    if isinstance(error, DivergedError):
        return str(error)
    return f"out of memory: {str(error).splitlines()[0] if str(error) else 'no more to be had'}"
