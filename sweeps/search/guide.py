"""A search guided by temperatures: selects the next setting and decides when to end."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from sweeps.search.plan import Plan
from sweeps.search.ranking import repeats_networks
from sweeps.search.record import State, TrialRecord
from sweeps.search.setting_models import Places
from sweeps.search.space import SearchSpace
from sweeps.search.temperature_model import TemperatureModel, expected_objectives
from sweeps.search.untried import Untried
from sweeps.search.warm_start import Known
from trainables.contract.setting import Setting

_LEAST_GUIDED: Final = 5  # trials before the search may end
_LEAST_GAIN: Final = 0.5  # standard errors of the objective
_SPACING: Final = 0.08  # share of a range; closer settings of a loss show much the same
_MOST_REPEATS: Final = 3  # settings of a loss that train the networks of cross-entropy
_CANDIDATES: Final = 64  # of each loss that has hyperparameters, a power of 2


@dataclass(frozen=True)
class Proposal:
    """What to try next.

    Attributes:
        setting: The untried setting with the highest expected gain. None if all were tried, or if
            the baseline ended without a temperature, so that no prediction is possible.
        gain: Expected reduction of the objective.
        least: Smallest gain that is worth a trial.
        is_due: Whether its loss is to be tried before the search ends.
    """

    setting: Setting | None
    gain: float
    least: float
    is_due: bool = False


class Guide:
    """Proposes settings from earlier datasets and this sweep's trials.

    Candidates are settings spread over the ranges by the seed, and the published ones; or those of
    `known`. The search tries every loss before a second setting of another one. A setting that
    trains the networks of cross-entropy does not count, until there are three of its loss.
    """

    def __init__(
        self, plan: Plan, known: Known, published: Sequence[Setting], num_classes: int
    ) -> None:
        self._plan, self._given, self._published = plan, known.candidates, published
        self._num_classes = num_classes
        self._places = Places(plan.space.branches)
        self._earlier = [e for e in known.recorded if self._places.knows(e.setting)]
        self._last: tuple[tuple[State, ...], Proposal] | None = None

    @cached_property
    def _candidates(self) -> list[Setting]:
        """Made for the first proposal, as it takes a second in which the baseline can start."""
        found = self._given
        if found is None:
            found = [*self._published, *_spread(self._plan.space, self._plan.search.seed)]
        return [s for s in dict.fromkeys(found) if self._places.knows(s)]

    @property
    def latest(self) -> Proposal | None:
        return self._last[1] if self._last else None

    def propose(self, records: Sequence[TrialRecord]) -> Proposal:
        """What to try next, given the trials of the search so far, including running ones."""
        states = tuple(record.state for record in records)
        if self._last is None or self._last[0] != states:
            # One thread: trials use the other cores, and threads that wait for each other are far
            # slower.
            with threadpool_limits(1):
                self._last = states, self._proposal(records)
        return self._last[1]

    def is_done(self, records: Sequence[TrialRecord]) -> bool:
        if len(records) < _LEAST_GUIDED:
            return False
        proposal = self.propose(records)
        return proposal.gain < proposal.least and not proposal.is_due

    def expected(self, records: Sequence[TrialRecord]) -> dict[Setting, float]:
        with threadpool_limits(1):
            return expected_objectives(self._model(records), [r.setting for r in records])

    def most_promising(
        self, losses: Sequence[str], records: Sequence[TrialRecord]
    ) -> list[Untried]:
        """The setting of each loss with the lowest expected objective."""
        own = [each for each in self._candidates if each.loss in losses]
        with threadpool_limits(1):
            found = expected_objectives(self._model(records), own)
        known = [each for each in own if each in found]
        best = {each.loss: each for each in sorted(known, key=found.__getitem__, reverse=True)}
        settings = [best.get(loss, Setting(loss, {})) for loss in losses]
        return [Untried(setting, found.get(setting, math.nan)) for setting in settings]

    def _untried(self, records: Sequence[TrialRecord]) -> list[Setting]:
        """The candidates of losses that are to be tried next."""
        baseline = next((record for record in records if record.role == "baseline"), None)
        repeats = Counter(r.loss for r in records if baseline and repeats_networks(r, baseline))
        tried = Counter(record.loss for record in records)
        enough = {loss for loss, n in tried.items() if n > repeats[loss] or n >= _MOST_REPEATS}
        left = [s for s in self._candidates if s.loss not in enough]
        return self._apart(left, [record.setting for record in records]) if left else []

    def _apart(self, candidates: Sequence[Setting], tried: Sequence[Setting]) -> list[Setting]:
        """The candidates that are not close to a setting that was tried."""
        known = self._places([setting for setting in tried if self._places.knows(setting)])
        places = self._places(candidates)
        same = places[:, 0][:, None] == known[:, 0]
        distances = np.where(same, cdist(places[:, 1:], known[:, 1:]), np.inf)
        nearest = distances.min(axis=1, initial=np.inf)
        return [s for s, d in zip(candidates, nearest, strict=True) if d >= _SPACING]

    def _model(self, records: Sequence[TrialRecord]) -> TemperatureModel:
        places, rule = self._places, self._plan.rule
        return TemperatureModel(places, rule, self._earlier, records, self._num_classes)

    def _proposal(self, records: Sequence[TrialRecord]) -> Proposal:
        busy = {record.loss for record in records if record.state == "running"}
        due = self._untried(records)
        left = due or self._apart(self._candidates, [record.setting for record in records])
        # A running trial will soon inform about its loss.
        wanted = [setting for setting in left if setting.loss not in busy] or left
        model = self._model(records)
        least = _LEAST_GAIN * model.baseline.noise if model.baseline.finished else 0.0
        ended = any(r.role == "baseline" and r.state != "running" for r in records)
        if not wanted or (ended and not model.baseline.finished):
            return Proposal(None, 0.0, least)
        finished = [r.setting for r in records if r.state != "failed"]
        best = min(expected_objectives(model, finished).values())
        gains = model.gain(model.belief(wanted), best)
        first = int(np.argmax(gains))
        return Proposal(wanted[first], float(gains[first]), least, bool(due))


def _spread(space: SearchSpace, seed: int) -> list[Setting]:
    """Settings of every loss with hyperparameters, spread by a Sobol sequence."""
    found = []
    for loss, branch in space.branches.items():
        if not branch:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            sampler = optuna.samplers.QMCSampler(
                seed=seed, scramble=True, warn_asynchronous_seeding=False
            )
        study = optuna.create_study(sampler=sampler)
        for _ in range(_CANDIDATES):
            trial = study.ask({**branch})
            study.tell(trial, 0.0)
            found.append(Setting(loss, trial.params | space.fixed[loss]))
    return found
