"""The Ray Tune wrapper: one trial on one device, in an actor that the next trial uses again."""

from __future__ import annotations

import time
import traceback
from typing import Any

import ray
import torch
from ray import tune

from trainables.config import TrialSetup
from trainables.data.base import Data
from trainables.report import Failed, TrialConfig, Waits, to_tune
from trainables.trial import TrialRun, make_run
from trainables.wrappers.worker import SECONDS_BETWEEN_TRIES


class TuneTrial(tune.Trainable):
    """Runs a trial (:func:`~trainables.trial.make_run`), one epoch per step.

    A trial's checkpoints lie in its own folder of the sweep's storage, where the next actor (or
    the next driver) finds them by the trial's number; Tune keeps none. An exception in a step
    would come again, so it ends the trial as failed; only a process that dies is tried again.
    """

    _run: TrialRun | None = None

    def setup(
        self,
        config: dict[str, Any],
        dataset: Data | None = None,
        trial_setup: TrialSetup | None = None,
    ) -> None:
        """Called once per actor; the dataset is a view into Ray's object store."""
        assert dataset is not None and trial_setup is not None
        self._dataset = dataset
        self._trial_setup = trial_setup
        # Of the GPUs that Ray gave this process alone, the first; others may well be visible.
        self._device = torch.device("cuda" if ray.get_gpu_ids() else "cpu")
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take up another trial."""
        if self._run is not None:
            self._run.close()
        config = TrialConfig.from_tune(new_config)
        self._run = make_run(self._dataset, self._trial_setup, config, self._device)
        return True

    def cleanup(self) -> None:
        """Called before the actor ends."""
        if self._run is not None:
            self._run.close()

    def step(self) -> dict[str, Any]:
        """Train one epoch; see :func:`~trainables.report.to_tune`."""
        assert self._run is not None
        try:
            report = self._run.advance()
        except Exception as error:
            report = Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
        if isinstance(report, Waits):
            time.sleep(SECONDS_BETWEEN_TRIES)
        return to_tune(report)
