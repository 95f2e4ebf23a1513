"""Uses of undocumented behaviour of Optuna: limits the trials that its sampler sees."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Container, Sequence

from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

LATEST = 475
BEST = 25  # TPE models the best tenth of all trials, up to this many, against all others

_SAMPLED = (TrialState.COMPLETE, TrialState.PRUNED)


class TrialWindow(InMemoryStorage):
    """A study's trials in memory; the sampler sees a window of those that have ended.

    The window contains the best ``BEST`` trials, in TPE's own order, and the ``LATEST`` trials that
    ended last. Up to ``LATEST`` trials these are all. Beyond that, TPE still models the good
    settings by the best of all trials. It models the others by the latest trials; older ones have
    less weight anyway. There is one study, whose objectives are minimised; with several objectives,
    the first one defines the best.

    Relies on: samplers read with ``deepcopy=False``; TPE ranks completed before stopped before
    infeasible trials, and at most 25 count as good.
    Why: the time of a suggestion grows with the number of trials, and no sampler has such a window.
    Since: Optuna 5.0, the oldest allowed version.
    Test: tests/sweeps/search/test_optuna_internals.py::
        test_with_many_trials_tpe_gets_the_same_best_ones
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: set[int] = set()
        self._latest: deque[int] = deque(maxlen=LATEST)
        self._best: list[tuple[tuple[float, ...], int]] = []

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        trial_id = super().create_new_trial(study_id, template_trial)
        self._open.add(trial_id)
        return trial_id

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        changed = super().set_trial_state_values(trial_id, state, values)
        if state.is_finished():
            self._open.discard(trial_id)
            if state in _SAMPLED:
                self._latest.append(trial_id)
                insort(self._best, (_rank(self.get_trial(trial_id)), trial_id))
                del self._best[BEST:]
        return changed

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """The trials in the window if they are only read; all trials if copies are expected."""
        if deepcopy or states == (TrialState.WAITING,):
            return super().get_all_trials(study_id, deepcopy, states)
        shown = self._open.union(self._latest, (trial_id for _, trial_id in self._best))
        trials = [self.get_trial(trial_id) for trial_id in sorted(shown)]
        return [t for t in trials if states is None or t.state in states]


def _rank(trial: FrozenTrial) -> tuple[float, ...]:
    """The rank by which TPE splits trials, lower is better."""
    if (violation := sum(value for value in trial.constraints.values() if value > 0)) > 0:
        return 2.0, violation
    if trial.state == TrialState.COMPLETE:
        assert trial.values is not None
        return 0.0, trial.values[0]
    step, value = max(trial.intermediate_values.items())
    return 1.0, float(-step), value
