"""The sweep's Optuna study: asks for settings, remembers every result.

The study lives in memory; what it must never forget is in the trial records, from which it is
rebuilt by asking and telling once more. Each suggestion is drawn with a seed made of the sweep's
seed and the trial's number, so a resumed sweep suggests what it would have suggested anyway.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from sweeps.records import TrialRecord
from sweeps.selection import guard_excess, guard_reference
from sweeps.space import Setting, optuna_parameters, suggest
from sweeps.sweep_file import SweepFile
from sweeps.warm_start import EarlierTrial

optuna.logging.set_verbosity(optuna.logging.ERROR)

# TPE takes longer the more trials it is shown: from so many on it is shown some of them, chosen
# anew after every so many more. The best are those that it would look for good settings among.
_MANY, _STEP = 400, 50
_BEST_OF_EACH_LOSS, _LATEST = 25, 200


class SweepStudy:
    """Optuna's view of a sweep.

    What it is told of a trial: its objective and by how much it breaks the guard; a trial that
    the scheduler stopped is PRUNED, so that an early, low ECE never counts as a final one; a
    failed trial is FAIL. Until the cross-entropy baseline has ended results wait, as the guard
    cannot be known without it; should it fail, the lowest validation error so far stands in.

    In a sweep of many trials Optuna is shown the best of each loss and the latest.
    """

    def __init__(self, sweep: SweepFile) -> None:
        self._sweep = sweep
        self._study = _new_study()
        self._earlier: list[EarlierTrial] = []
        self._asked: dict[int, optuna.Trial | None] = {}
        self._settings: dict[int, Setting] = {}
        self._waiting: list[TrialRecord] = []
        self._told: list[TrialRecord] = []
        self._reference: float | None = None
        self._baseline_failed = False

    def learn(self, earlier: Sequence[EarlierTrial]) -> None:
        """Take in trials of earlier sweeps; call it before all else."""
        self._earlier = list(earlier)
        for known in earlier:
            trial = self._ask((known.loss, known.hyperparameters))
            if trial is not None:
                trial.set_constraint("guard", known.excess)
                self._study.tell(trial, known.objective)

    def restore(self, records: Sequence[TrialRecord]) -> None:
        """Take in the trials of a sweep that goes on, as it would know them by now."""
        searched = [r for r in records if r.searched]
        ended = [r for r in searched if r.state != "running"]
        ended.sort(key=lambda record: record.ended or 0.0)
        shown_before = len(ended) // _STEP * _STEP if len(ended) >= _MANY else 0
        told = {record.number for record in ended[:shown_before]}
        self._settings = {r.number: (r.loss, r.hyperparameters) for r in searched}
        self._told = ended[:shown_before]
        self._know_reference(self._told)
        self._renew([r.number for r in searched if r.number not in told])
        for record in ended[shown_before:]:
            self.observe(record)

    def suggest(self, number: int) -> Setting:
        """The setting of a new trial."""
        self._study.sampler = self._sampler(number)
        trial = self._study.ask()
        self._asked[number] = trial
        self._settings[number] = suggest(trial, self._sweep)
        return self._settings[number]

    def adopt(self, number: int, setting: Setting) -> None:
        """Make a setting that was not suggested (published, or of a resumed sweep) a trial."""
        self._asked[number] = self._ask(setting)
        self._settings[number] = setting

    def _ask(self, setting: Setting) -> optuna.Trial | None:
        parameters = optuna_parameters(self._sweep, setting)
        if parameters is None:
            return None
        self._study.sampler = RandomSampler(seed=0)  # draws nothing: all parameters are given
        self._study.enqueue_trial(parameters)
        trial = self._study.ask()
        suggest(trial, self._sweep)
        return trial

    def observe(self, record: TrialRecord) -> None:
        """Tell Optuna how a trial of the search ended."""
        self._know_reference([record])
        self._waiting.append(record)
        if self._reference is not None or self._baseline_failed:
            for waiting in self._waiting:
                self._tell(waiting)
                self._told.append(waiting)
                if len(self._told) >= _MANY and len(self._told) % _STEP == 0:
                    self._renew(sorted(self._asked))
            self._waiting.clear()

    def _know_reference(self, ended: Sequence[TrialRecord]) -> None:
        for record in ended:
            if record.role == "baseline":
                self._reference = guard_reference([record])
                self._baseline_failed = self._reference is None
        if self._baseline_failed and self._reference is None:
            errors = (r.outcome["val_error"] for r in ended if math.isfinite(self._value(r)))
            self._reference = min(errors, default=None)

    def _renew(self, pending: Sequence[int]) -> None:
        """Begin a study anew with the trials that it is to be shown, and those not told yet."""
        self._study, self._asked = _new_study(), {}
        self.learn(self._earlier)
        for record in self._shown():
            self.adopt(record.number, self._settings[record.number])
            self._tell(record)
        for number in pending:
            self.adopt(number, self._settings[number])

    def _shown(self) -> list[TrialRecord]:
        """Of the trials that ended, in that order, those that Optuna is shown."""
        shown = {record.number for record in self._told[-_LATEST:]}
        of_loss: dict[str, list[TrialRecord]] = {}
        for record in self._told:
            if record.state == "finished" and math.isfinite(self._value(record)):
                of_loss.setdefault(record.loss, []).append(record)
        for records in of_loss.values():
            best = sorted(records, key=lambda r: (self._excess(r) > 0, self._value(r), r.number))
            shown |= {record.number for record in best[:_BEST_OF_EACH_LOSS]}
        return [record for record in self._told if record.number in shown]

    def _value(self, record: TrialRecord) -> float:
        return record.outcome.get(self._sweep.search.objective, math.nan)

    def _excess(self, record: TrialRecord) -> float:
        assert self._reference is not None  # results wait for it
        return guard_excess(record, self._reference, self._sweep.search.guard)

    def _tell(self, record: TrialRecord) -> None:
        trial = self._asked.pop(record.number, None)
        if trial is None:
            return
        value = self._value(record)
        if record.state == "failed" or not math.isfinite(value):
            self._study.tell(trial, state=TrialState.FAIL)
            return
        error = record.outcome["val_error"]
        if self._baseline_failed:
            self._reference = error if self._reference is None else min(error, self._reference)
        trial.set_constraint("guard", self._excess(record))
        if record.state == "stopped":
            trial.report(value, record.epochs)
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, value)

    def _sampler(self, number: int) -> BaseSampler:
        seed = int(np.random.SeedSequence([self._sweep.search.seed, number]).generate_state(1)[0])
        if self._sweep.search.sampler == "random":
            return RandomSampler(seed=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Argument ``group``", ExperimentalWarning)
            return TPESampler(seed=seed, multivariate=True, group=True)


def _new_study() -> optuna.Study:
    return optuna.create_study(direction="minimize", sampler=RandomSampler())
