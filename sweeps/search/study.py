"""The sweep's Optuna study: suggests settings and observes results.

The study is in memory and is rebuilt from the trial records. The seed of a suggestion depends on
the sweep's seed and the trial's number, so a resumed sweep makes the same suggestions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import TrialState

from sweeps.search.optuna_internals import TrialWindow
from sweeps.search.plan import Plan
from sweeps.search.ranking import baseline_means, best_values, excesses
from sweeps.search.record import TrialRecord
from sweeps.search.samplers import SAMPLERS
from sweeps.search.warm_start import EarlierTrial
from trainables.contract.setting import Setting

optuna.logging.set_verbosity(optuna.logging.ERROR)


_DRAWS = 20  # tries of the sampler to suggest an untried setting


class SweepStudy:
    """Optuna's view of a sweep.

    For each trial it observes the objective and the excess over each limit. A trial that the
    scheduler stopped is PRUNED, so an early, low ECE never counts as a final one. A failed trial is
    FAIL. With several objectives Optuna does not support PRUNED: such a trial is COMPLETE and
    violates an additional constraint. Results wait until the cross-entropy baseline has ended,
    because the guard depends on it. If the baseline fails, the best values so far replace it.

    No setting is suggested twice, because with the same seed its training would be identical.
    """

    def __init__(self, plan: Plan) -> None:
        self._search = plan.search
        self._space, self._rule = plan.space, plan.rule
        self._study = optuna.create_study(
            directions=["minimize"] * len(self._rule.objectives),
            sampler=RandomSampler(),
            storage=TrialWindow(),
        )
        self._asked: dict[int, optuna.Trial] = {}
        self._sizes = self._space.sizes
        self._tried: dict[str, set[Setting]] = {loss: set() for loss in self._sizes}
        self._waiting: list[TrialRecord] = []
        self._references: dict[str, float] | None = None
        self._baseline_failed = False

    def learn(self, earlier: Sequence[EarlierTrial]) -> None:
        """Add trials of earlier sweeps; call this first."""
        for known in earlier:
            if (trial := self._ask(known.setting)) is not None:
                for name, excess in {"guard": known.excess, **known.constraints}.items():
                    trial.set_constraint(name, excess)
                self._study.tell(trial, [known.objective, *known.others])

    def suggest(self, number: int) -> Setting:
        """An untried setting for a new trial; see :attr:`exhausted`."""
        for attempt in range(_DRAWS):
            self._study.sampler = self._sampler(number, attempt)
            trial = self._study.ask()
            setting = self._space.suggest(trial)
            if self._is_new(setting):
                self._asked[number] = trial
                return setting
            self._study.tell(trial, state=TrialState.FAIL)  # samplers ignore failed trials
        setting = self._any_new(np.random.default_rng([self._search.seed, number]))
        self.adopt(number, setting)
        return setting

    def adopt(self, number: int, setting: Setting) -> None:
        """Add a trial with a setting that the study did not suggest, such as a published one."""
        if (trial := self._ask(setting)) is not None:
            self._is_new(setting)
            self._asked[number] = trial

    @property
    def exhausted(self) -> bool:
        """Whether every setting of a finite space was tried."""
        return not self._losses_left()

    def _losses_left(self) -> list[str]:
        return [loss for loss, size in self._sizes.items() if len(self._tried[loss]) < size]

    def _is_new(self, setting: Setting) -> bool:
        """Whether a setting is new; marks it as tried."""
        tried = self._tried[setting.loss]
        new = setting not in tried
        tried.add(setting)
        return new

    def _any_new(self, draw: np.random.Generator) -> Setting:
        """Any untried setting, regardless of the sampler."""
        loss = str(draw.choice(self._losses_left()))
        if math.isfinite(self._sizes[loss]):
            tried = self._tried[loss]
            left = (s for s in self._space.all_settings(loss) if s not in tried)
            several = list(itertools.islice(left, _DRAWS))
            return several[draw.integers(len(several))]
        aside = optuna.create_study(sampler=RandomSampler(seed=int(draw.integers(2**32))))
        aside.enqueue_trial({"loss": loss})
        return self._space.suggest(aside.ask())

    def _ask(self, setting: Setting) -> optuna.Trial | None:
        if (parameters := self._space.optuna_parameters(setting)) is None:
            return None
        self._study.sampler = RandomSampler(seed=0)  # all parameters are given, so nothing is drawn
        self._study.enqueue_trial(parameters)
        trial = self._study.ask()
        self._space.suggest(trial)
        return trial

    def observe(self, record: TrialRecord) -> None:
        """Tell Optuna how a trial ended."""
        if record.role == "baseline":
            self._references = baseline_means([record], self._rule)
            self._baseline_failed = self._references is None
        self._waiting.append(record)
        if self._references is not None or self._baseline_failed:
            for waiting in self._waiting:
                self._tell(waiting)
            self._waiting.clear()

    def _tell(self, record: TrialRecord) -> None:
        if (trial := self._asked.pop(record.number, None)) is None:
            return
        values = [record.outcome.get(name, math.nan) for name in self._rule.objectives]
        if record.state == "failed" or not all(map(math.isfinite, values)):
            self._study.tell(trial, state=TrialState.FAIL)
            return
        if self._baseline_failed:
            known = [self._references] if self._references is not None else []
            self._references = best_values([*known, record.outcome], self._rule)
        assert self._references is not None  # the other results wait for the baseline
        for name, excess in excesses(record, self._references, self._rule).items():
            trial.set_constraint(name, excess)
        if record.state == "stopped" and len(values) == 1:
            trial.report(values[0], record.epochs)
            self._study.tell(trial, state=TrialState.PRUNED)
            return
        if record.state == "stopped":
            trial.set_constraint("stopped", 1.0)
        self._study.tell(trial, values)

    def _sampler(self, number: int, attempt: int) -> BaseSampler:
        entropy = [self._search.seed, number, *([attempt] if attempt else [])]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        return SAMPLERS[self._search.sampler](seed)
