"""Selects settings under a guard, on validation data, with fresh seeds for the finalists.

A constant classifier can have an ECE of zero, so ECE alone is not a criterion: a trial is feasible
only if its validation error is at most the cross-entropy baseline's plus a tolerance. The best of
many trials is partly luck, so the mean over fresh seeds decides. The test split is not used here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist, fmean

from sweeps.search.record import Entry, TrialRecord
from sweeps.search.rules import Limit, Rule
from trainables.contract.metric_names import RARE_CLASS, MetricName
from trainables.contract.setting import BASELINE_LOSS, Setting

_PROOF = "val_nll_scaled"  # a metric that equal networks alone have in common
_LEAST_CHANCE = 0.05  # probability of respecting the guard that a finalist needs
_GUARD_NOISE = 0.5  # standard errors of the difference of two errors beyond which the guard holds
_WIDTH_OF_95_PERCENT = 2 * 1.96  # standard deviations

References = dict[str, float]
"""By metric, what limits are measured from."""


@dataclass(frozen=True)
class Candidate:
    """A setting, with all its trials.

    Attributes:
        trials: Its finished trials, first the one of the search.
        judged: The trials that represent it: those with fresh seeds, or the first if there are
            none.
        objectives: Mean of each objective over ``judged``, as of the other metrics.
        scores: These means plus their standard errors, by which settings are ranked, so that one
            of whose fresh seeds some failed needs a lower mean. The standard deviation is that of
            all settings together.
        tier: Lower is better: 0 with fresh seeds, 1 if the best finalist has further seeds, 2 for a
            single trial.
        broken: The limits that it exceeds, the guard by more than half of the standard error of the
            difference of both errors; it is feasible if there are none.
    """

    trials: tuple[TrialRecord, ...]
    judged: tuple[TrialRecord, ...]
    objectives: tuple[float, ...]
    broken: tuple[Limit, ...]
    scores: tuple[float, ...]
    tier: int

    @property
    def objective(self) -> float:
        return self.objectives[0]

    @property
    def val_error(self) -> float:
        return self.mean("val_error")

    @property
    def feasible(self) -> bool:
        return not self.broken

    @property
    def setting(self) -> Setting:
        return self.trials[0].setting

    @property
    def loss(self) -> str:
        return self.trials[0].loss

    @property
    def seeds(self) -> int:
        """Number of its fresh seeds; 0 if it was trained only in the search."""
        return len(self.judged) if self.judged[0].role == "finalist" else 0

    def mean(self, metric: str | MetricName) -> float:
        """Mean of a metric over the judged trials (NaN where it is undefined)."""
        return mean_over(self.judged, str(metric))

    def interval(self, metric: MetricName) -> tuple[float, float]:
        """Means of the ends of a metric's 95% interval over the judged trials."""
        return self.mean(metric.with_statistic("low")), self.mean(metric.with_statistic("high"))


class Ranking:
    """A sweep's settings, best first, computed once from its records.

    Settings with fresh seeds come before others, because the lowest objective of many single trials
    is partly luck, see :attr:`Candidate.tier`; the scores sort the rest. If the baseline did
    not finish, the lowest validation error replaces its error.

    Attributes:
        candidates: Every setting with a finished trial: feasible ones first.
    """

    def __init__(self, records: Iterable[TrialRecord], rule: Rule) -> None:
        self.rule = rule
        self.records = tuple(records)
        finished = [
            r
            for r in self.records
            if r.state == "finished"
            and all(math.isfinite(r.outcome.get(name, math.nan)) for name in rule.objectives)
        ]
        self._finished = finished
        groups: dict[Setting, list[TrialRecord]] = {}
        for record in finished:
            groups.setdefault(record.setting, []).append(record)
        judged = {setting: _judged(trials) for setting, trials in groups.items()}
        references = self._references(list(judged.values()))
        spreads = [_spread_over_seeds(judged.values(), name) for name in rule.objectives]
        tiers = self._tiers(judged)
        baseline = next((own for each, own in judged.items() if each.loss == BASELINE_LOSS), [])
        found = [
            Candidate(
                trials=tuple(groups[setting]),
                judged=tuple(own),
                objectives=tuple(mean_over(own, name) for name in rule.objectives),
                broken=_broken(own, rule, references[_is_again(own)], _error_noise(own, baseline)),
                scores=tuple(
                    mean_over(own, name) + spread / math.sqrt(len(own))
                    for name, spread in zip(rule.objectives, spreads, strict=True)
                ),
                tier=tiers[setting],
            )
            for setting, own in judged.items()
        ]
        found.sort(key=lambda c: (not c.feasible, c.tier, c.scores, c.trials[0].number))
        self.candidates = tuple(found)

    @property
    def rare_class(self) -> bool:
        """Whether the data have a rare class, so that errors say little."""
        return any(RARE_CLASS in record.outcome for record in self.records)

    @property
    def chosen(self) -> Candidate | None:
        """The best setting, if it is feasible."""
        best = self.candidates[0] if self.candidates else None
        return best if best is not None and best.feasible else None

    @cached_property
    def front(self) -> tuple[Candidate, ...]:
        """The feasible settings of the Pareto front, sorted by the first objective.

        If there are settings with fresh seeds, only those are compared.
        """
        alike = [c for c in self.candidates if self.chosen and c.tier == self.chosen.tier]
        feasible = [c for c in alike if c.feasible]
        return tuple(
            c
            for c in feasible
            if not any(
                o.objectives != c.objectives
                and all(a <= b for a, b in zip(o.objectives, c.objectives, strict=True))
                for o in feasible
            )
        )

    def _tiers(self, judged: Mapping[Setting, list[TrialRecord]]) -> dict[Setting, int]:
        """See :class:`Candidate`.

        Seeds that failed count, so that they do not cost a setting its tier. The baseline has at
        least as many seeds as the best finalist, which has the most of the others.
        """
        finals = [r for r in self.records if r.role == "finalist" and r.state != "running"]
        ended = Counter(setting for setting, _ in {(r.setting, r.seed) for r in finals})
        of_baseline = [n for setting, n in ended.items() if setting.loss == BASELINE_LOSS]
        of_others = [n for setting, n in ended.items() if setting.loss != BASELINE_LOSS]
        most = min(max(of_baseline, default=0), max(of_others, default=0))
        return {
            setting: (0 if ended[setting] >= most else 1) if _is_again(own) else 2
            for setting, own in judged.items()
        }

    @cached_property
    def baseline(self) -> Candidate | None:
        """The cross-entropy baseline, if it finished."""
        return self.best_of(BASELINE_LOSS)

    @cached_property
    def reference(self) -> float | None:
        """Validation error of the search's baseline, to which the guard is relative."""
        found = baseline_means((r for r in self._finished if r.role == "baseline"), self.rule)
        return None if found is None else found["val_error"]

    @cached_property
    def best_by_loss(self) -> dict[str, Candidate]:
        """The best setting of each loss of which a trial finished, best first."""
        return _first_of_losses(self.candidates)

    @property
    def shown(self) -> tuple[TrialRecord, ...]:
        """The trials by which results show each loss."""
        return tuple(trial for each in self.best_by_loss.values() for trial in each.judged)

    def best_of(self, loss: str) -> Candidate | None:
        """The best setting of a loss, if any of its trials finished."""
        return self.best_by_loss.get(loss)

    def finalists(
        self,
        count: int,
        *,
        per_loss: bool = False,
        expected: Mapping[Setting, float] | None = None,
    ) -> list[Candidate]:
        """The `count` most promising settings and the baseline, to train again with fresh seeds.

        With one objective these are the settings with the lowest expected objective: `expected`, or
        that of :meth:`_expected_objective`; of two losses at least, because the settings of one
        break the guard together. With several they are the Pareto front, or settings
        spread along it if it has too many. The baseline is included even if it breaks a constraint;
        0 means no trials at all. With `per_loss` they are the best setting of each loss, promising
        or not.
        """
        if count == 0:
            return []
        if per_loss:
            found = self._best_of_losses(expected)[:count]
        elif self.rule.others:
            found = _spread([c for c in self.front if not self.repeats_baseline(c)], count)
        else:
            promising = filter(self._is_promising, self.candidates)
            found = _of_two_losses(sorted(promising, key=lambda c: self._value(c, expected)), count)
        return found + [c for c in self.candidates if c.loss == BASELINE_LOSS and c not in found]

    def _best_of_losses(self, expected: Mapping[Setting, float] | None) -> list[Candidate]:
        others = [c for c in self.candidates if c.loss != BASELINE_LOSS]
        own = [c for c in others if not self.repeats_baseline(c)]
        own.sort(key=lambda c: (not self._is_promising(c), self._value(c, expected)))
        return list(_first_of_losses(own).values())

    def _value(self, candidate: Candidate, expected: Mapping[Setting, float] | None) -> float:
        if expected is not None and candidate.setting in expected:
            return expected[candidate.setting]
        return self._expected_objective(candidate)

    def _is_promising(self, candidate: Candidate) -> bool:
        """Whether it respects all constraints, may respect the guard and is not cross-entropy."""
        only_guard = set(candidate.broken) <= {self.rule.limits["guard"]}
        may_respect = only_guard and self._chance(candidate) >= _LEAST_CHANCE
        return may_respect and not self.repeats_baseline(candidate)

    def repeats_baseline(self, candidate: Candidate) -> bool:
        """Whether a setting has trained the same networks as cross-entropy.

        So does a margin that is never reached. All metrics of a trial with the same seed are then
        equal in every bit.
        """
        first = next((r for r in self._finished if r.role == "baseline"), None)
        if first is None or candidate.loss == BASELINE_LOSS:
            return False
        return any(repeats_networks(trial, first) for trial in candidate.trials)

    def original_of(self, candidate: Candidate) -> Candidate:
        """The setting whose networks a setting repeats: cross-entropy's, else its own."""
        if self.baseline is None or not self.repeats_baseline(candidate):
            return candidate
        return self.baseline

    def shown_as(self, candidate: Candidate) -> Candidate:
        """The setting with the judged trials of :meth:`original_of`, which has the fresh seeds."""
        return replace(self.original_of(candidate), trials=candidate.trials)

    def _expected_objective(self, candidate: Candidate) -> float:
        """Its objective · p + the baseline's · (1 - p), p being the chance to respect the guard.

        If a setting turns out to break the guard, the baseline is selected instead.
        """
        chance = self._chance(candidate)
        if self.baseline is None or chance == 1:
            return candidate.objective
        return chance * candidate.objective + (1 - chance) * self.baseline.objective

    def _chance(self, candidate: Candidate) -> float:
        """The probability that a setting's true error respects the guard.

        Computed from the intervals of both measured errors, assumed independent and normal; if an
        interval is unknown, the measured errors decide.
        """
        if self.baseline is None or candidate == self.baseline:
            return float(candidate.feasible)
        noise = _error_noise(candidate.judged, self.baseline.judged)
        allowed = self.baseline.val_error + self.rule.guard - candidate.val_error
        return NormalDist().cdf(allowed / noise) if noise else float(candidate.feasible)

    def _references(self, judged: Sequence[list[TrialRecord]]) -> dict[bool, References]:
        """The references of limits, for settings with fresh seeds (True) and for the others."""
        first = baseline_means((r for r in self._finished if r.role == "baseline"), self.rule)
        again = baseline_means((r for r in self._finished if r.role == "finalist"), self.rule)
        known = {False: first, True: again or first}
        for kind, found in known.items():
            if found is None:  # fresh seeds are compared with fresh seeds here too
                alike = [trials for trials in judged if _is_again(trials) is kind]
                known[kind] = best_values(
                    [_means(trials, self.rule) for trials in alike], self.rule
                )
        return {kind: found or {} for kind, found in known.items()}


def baseline_means(records: Iterable[TrialRecord], rule: Rule) -> References | None:
    """The references of limits: mean metrics of cross-entropy over its finished trials."""
    own = [r for r in records if r.loss == BASELINE_LOSS and r.state == "finished"]
    return _means(own, rule) if own else None


def best_values(found: Sequence[Entry], rule: Rule) -> References:
    """The best value of each metric, if the baseline did not finish."""
    best = {}
    for limit in rule.limits.values():
        values = (limit.sign * each.get(limit.metric, math.nan) for each in found)
        known = [value for value in values if not math.isnan(value)]
        if limit.relative and known:
            best[limit.metric] = limit.sign * min(known)
    return best


def excesses(record: TrialRecord, references: References, rule: Rule) -> dict[str, float]:
    """The excess of a trial over each limit, by name; it is feasible if none is above 0.

    A stopped trial may lack a metric; its limit is then omitted.
    """
    return {
        name: limit.excess(
            record.outcome.get(limit.metric, math.nan), references.get(limit.metric, math.nan)
        )
        for name, limit in rule.limits.items()
        if record.state != "stopped" or limit.metric in record.outcome
    }


def _means(trials: Sequence[TrialRecord], rule: Rule) -> References:
    metrics = {limit.metric for limit in rule.limits.values() if limit.relative}
    return {name: mean_over(trials, name) for name in metrics}


def repeats_networks(trial: TrialRecord, other: TrialRecord) -> bool:
    """Whether two trials with one seed trained the same networks: all metrics are equal."""

    def metrics(record: TrialRecord) -> dict[str, str]:
        found = record.outcome.items()
        return {name: repr(value) for name, value in found if name.startswith(("val_", "test_"))}

    ours, theirs = metrics(trial), metrics(other)
    shared = ours.keys() & theirs.keys()  # one of them may have been completed
    return (
        trial.seed == other.seed
        and _PROOF in shared
        and all(ours[name] == theirs[name] for name in shared)
    )


def mean_over(trials: Sequence[TrialRecord], metric: str) -> float:
    """The mean of a metric over trials; NaN where it is undefined."""
    return fmean(trial.outcome.get(metric, math.nan) for trial in trials)


def _error_noise(trials: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> float:
    """Standard error of the difference of two validation errors, independent; 0 if unknown."""
    if not baseline or trials == baseline:
        return 0.0
    widths = [
        mean_over(own, "val_error_high") - mean_over(own, "val_error_low")
        for own in (trials, baseline)
    ]
    return math.hypot(*widths) / _WIDTH_OF_95_PERCENT if all(map(math.isfinite, widths)) else 0.0


def _first_of_losses(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    found: dict[str, Candidate] = {}
    for each in candidates:
        found.setdefault(each.loss, each)
    return found


def _of_two_losses(ranked: Sequence[Candidate], count: int) -> list[Candidate]:
    """The first ones; the last gives way to the first of another loss if they are all of one."""
    first = list(ranked[:count])
    own = [c.loss for c in first if c.loss != BASELINE_LOSS]
    other = next((c for c in ranked if c.loss not in (BASELINE_LOSS, *own)), None)
    if len(own) > 1 and len(set(own)) == 1 and other is not None:
        first[-1] = other
    return first


def _spread(front: Sequence[Candidate], count: int) -> list[Candidate]:
    """This many settings of a front, evenly spaced and including both ends."""
    if len(front) <= count:
        return list(front)
    return [front[round(i * (len(front) - 1) / max(1, count - 1))] for i in range(count)]


def _judged(trials: list[TrialRecord]) -> list[TrialRecord]:
    return [r for r in trials if r.role == "finalist"] or trials[:1]


def _is_again(judged: list[TrialRecord]) -> bool:
    return judged[0].role == "finalist"


def _spread_over_seeds(judged: Iterable[list[TrialRecord]], metric: str) -> float:
    """Standard deviation of a metric over the fresh seeds of a setting, pooled over settings."""
    values = [[r.outcome[metric] for r in own] for own in judged if _is_again(own)]
    freedom = sum(len(own) - 1 for own in values)
    squares = sum((value - fmean(own)) ** 2 for own in values for value in own)
    return math.sqrt(squares / freedom) if freedom else 0.0


def _broken(
    trials: Sequence[TrialRecord], rule: Rule, references: References, noise: float
) -> tuple[Limit, ...]:
    """The limits that the means of trials exceed; `noise` is a standard error of the guard's."""
    tolerated = {rule.limits["guard"]: _GUARD_NOISE * noise}
    return tuple(
        limit
        for limit in rule.limits.values()
        if limit.excess(mean_over(trials, limit.metric), references.get(limit.metric, math.nan))
        > tolerated.get(limit, 0.0)
    )
