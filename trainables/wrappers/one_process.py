"""The Ray Tune wrapper: one trial on one device, in an actor that the next trial uses again."""

from __future__ import annotations

import json
import time
import traceback
from typing import Any

from ray import tune

from trainables.config import TrialSetup
from trainables.data.base import Dataset
from trainables.metrics import EPOCH_METRICS
from trainables.trial import make_run

SECONDS_BETWEEN_TRIES = 5.0  # to write to a storage that cannot be written
SCHEDULER_METRICS = tuple(f"val_{name}" for name in EPOCH_METRICS)


class TuneTrial(tune.Trainable):
    """Runs a trial (:func:`~trainables.trial.make_run`), one epoch per step.

    A trial's checkpoints lie in its own folder of the sweep's storage, where the next actor (or
    the next driver) finds them by the trial's number; Tune keeps none. An exception in a step
    would come again, so it ends the trial as failed; only a process that dies is tried again.
    """

    def setup(
        self,
        config: dict[str, Any],
        dataset: Dataset | None = None,
        trial_setup: TrialSetup | None = None,
    ) -> None:
        """Called once per actor; the dataset is a view into Ray's object store."""
        assert dataset is not None and trial_setup is not None
        self._dataset = dataset
        self._trial_setup = trial_setup
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take up another trial."""
        self._run = make_run(self._dataset, self._trial_setup, new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Train one epoch.

        Returns:
            See :func:`as_result`; else ``failure`` or ``waiting``, the reason.
        """
        try:
            result = self._run.advance()
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            return {"failure": message, "traceback": traceback.format_exc(), "done": True}
        if "failure" in result:
            return result
        if "waiting" in result:
            time.sleep(SECONDS_BETWEEN_TRIES)
            return result
        done = result.pop("done")
        return {**as_result(result), "done": done}


def as_result(report: dict[str, Any]) -> dict[str, Any]:
    """A report of :meth:`~trainables.trial.TrialRun.advance` as Tune gets it.

    Returns:
        What the scheduler may look at (``epoch`` and the metrics of every epoch), and all
        metrics of all epochs reported as JSON in ``entries``: of every number in a result Tune
        keeps running statistics, which would cost more than the rest of a short trial.
    """
    last = {name: value for name, value in report.items() if name != "before"}
    seen = {name: last[name] for name in ("epoch", *SCHEDULER_METRICS) if name in last}
    return {**seen, "entries": json.dumps([*report.get("before", []), last])}
