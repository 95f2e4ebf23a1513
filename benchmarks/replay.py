"""The trials of :mod:`benchmarks.scale`, which replay the reports and files of real trials."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from trainables.contract.config import TrialSetup, trial_folder
from trainables.contract.messages import Progressed, Report, TrialConfig
from trainables.files.storage import Folder
from trainables.wrappers.one_process import TuneTrial

CURVES = "CALSWEEP_BENCHMARK_CURVES"  # environment variable: folder of recorded trials


class ReplayTrial(TuneTrial):
    """A trial that steps through a recorded one of the same loss."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Switch to another trial."""
        config = TrialConfig.from_tune(new_config)
        self._run = ReplayRun(self._trial_setup, config)  # type: ignore[assignment]
        return True


class ReplayRun:
    """Reports the epochs of a recorded trial, and writes its files."""

    def __init__(self, setup: TrialSetup, config: TrialConfig) -> None:
        same = [trial for trial in recorded() if trial["loss"] == config.setting.loss]
        self._trial = same[config.number % len(same)]
        self._folder = Folder(setup.trials_uri) / trial_folder(config.number)
        self._epoch = 0

    def advance(self) -> Report:
        """The next epoch."""
        entry = self._trial["history"][self._epoch]
        self._epoch += 1
        done = self._epoch == len(self._trial["history"])
        if self._epoch == 1 or done:
            for path, data in self._trial["files"].items():
                folder, _, name = path.rpartition("/")
                (self._folder / folder if folder else self._folder).write(name, data)
        return Progressed((entry,), done)


@cache
def recorded() -> list[dict[str, Any]]:
    """The recorded trials that ran to their end."""
    trials = []
    for folder in sorted(Path(os.environ[CURVES]).iterdir()):
        trial = json.loads((folder / "trial.json").read_text())
        if trial["state"] == "finished":
            files = [p for p in folder.rglob("*") if p.is_file() and p.name != "trial.json"]
            trial["files"] = {str(p.relative_to(folder)): p.read_bytes() for p in files}
            trials.append(trial)
    return trials
