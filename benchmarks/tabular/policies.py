"""Search policies to compare: calsweep with changed sweep file values, and alternatives.

`research/policies.py` has those that were tried and not adopted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler

from benchmarks.tabular.curves import Curves
from benchmarks.tabular.priors import PRIORS, Prior, known_of
from benchmarks.tabular.replay import replay, with_values
from benchmarks.tabular.selected import Policy, Selected
from benchmarks.tabular.stoppers import AcrossLosses
from sweeps.search.plan import Plan
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import Rule, rule_of
from sweeps.search.samplers import SAMPLERS
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import STOPPERS, make_stopper
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import BASELINE, Setting


@dataclass(frozen=True)
class Calsweep:
    """A sweep of calsweep with changed values.

    Attributes:
        sets: Values of the sweep file, ``KEY=VALUE`` each.
        published: Maximum share of published settings in the trials; they come first.
        initial: Initial settings instead of the published ones, the baseline first.
        at_once: Number of concurrent trials.
        replays: Replays the sweep in another way, such as with trials that are paused.
        judge: Chooses of all trials by the sweep's rule.
        prior: What a guided search starts from.
        expected: See :func:`~benchmarks.tabular.replay.replay`.
    """

    sets: tuple[str, ...] = ()
    published: float = 1.0
    initial: tuple[Setting, ...] | None = None
    at_once: int = 1
    replays: Callable[..., list[TrialRecord]] | None = None
    judge: Callable[[Sequence[TrialRecord], Rule], Candidate | None] = lambda records, rule: (
        Ranking(records, rule).chosen
    )
    prior: Prior = "shipped"
    expected: bool | None = None

    def __call__(
        self, sweep: SweepFile, curves: Curves, num_classes: int, seeds: Sequence[int]
    ) -> Selected:
        """Replay the sweep; ``seeds`` are recorded ones, first of the search, then of finalists."""
        # The recordings have one seed for the search and two fresh ones.
        sweep = with_values(sweep, (f"selection.seeds={len(seeds) - 1}", *self.sets))
        own = seeds[: len(sweep.seeds)]
        if self.replays is not None:
            records = self.replays(sweep, curves, num_classes, own)
        else:
            guided = sweep.search.is_guided
            initial = None if guided else self.initial or self._published(sweep, num_classes)
            recorded = known_of(sweep, self.prior)
            records = replay(
                sweep, curves, num_classes, own, self.at_once, initial, recorded, self.expected
            )
        chosen = self.judge(records, rule_of(sweep))
        setting = curves.nearest(chosen.setting if chosen else BASELINE)
        promised = chosen.mean("val_ece") if chosen else math.nan
        epochs = sum(record.epochs for record in records)
        return Selected(setting, sweep.training.epochs, promised, epochs)

    def _published(self, sweep: SweepFile, num_classes: int) -> list[Setting]:
        """The published settings up to the share, and those outside the search space."""
        space = SearchSpace(sweep.losses)
        most = max(1, round(self.published * sweep.search.trials))
        first = space.initial_settings(num_classes)
        return [s for number, s in enumerate(first) if number < most or not space.contains(s)]


@dataclass(frozen=True)
class Plain:
    """A search without guard, published settings and fresh seeds.

    Attributes:
        sampler: Makes an Optuna sampler from a seed.
        metric: The metric that is minimised, also by ASHA.
        asha: Whether ASHA stops trials, with Ray's defaults: from epoch 1, it keeps a quarter.
        any_epoch: Whether the best epoch of a trial counts and is kept, or the last one.
    """

    sampler: Callable[[int], BaseSampler]
    metric: str
    asha: bool
    any_epoch: bool = False

    def __call__(
        self, sweep: SweepFile, curves: Curves, num_classes: int, seeds: Sequence[int]
    ) -> Selected:
        """Replay it; of ``seeds`` the first is used."""
        asha = ["grace_period=1", "reduction_factor=4", f"metric={self.metric}", "name=asha_across"]
        sweep = with_values(sweep, [f"scheduler.{each}" for each in asha])
        stopper = make_stopper(Plan(sweep))
        space = SearchSpace(sweep.losses)
        study = optuna.create_study(sampler=self.sampler(sweep.search.seed))
        found: list[tuple[float, Setting, int, float]] = []
        epochs = 0
        for number in range(sweep.search.trials):
            trial = study.ask()
            setting = space.suggest(trial)
            record = TrialRecord(number, "search", setting, seeds[0], 0)
            for entry in curves.history(setting, seeds[0]):
                record.add(entry)
                if self.asha and stopper.judge(record, entry):
                    break
            kept = record.history if self.any_epoch else record.history[-1:]
            best = min(kept, key=lambda entry: _or_inf(entry[self.metric]), default=None)
            value = _or_inf(best[self.metric]) if best else math.inf
            if best is not None and math.isfinite(value):
                study.tell(trial, value)
                found.append((value, setting, int(best["epoch"]), best["val_ece"]))
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            epochs += record.epochs
        _, setting, epoch, promised = min(found, key=lambda each: each[0])
        return Selected(curves.nearest(setting), epoch, promised, epochs)


def everything(
    sweep: SweepFile, curves: Curves, num_classes: int, seeds: Sequence[int]
) -> Selected:
    """Exhaustive search: the lowest mean validation ECE within the guard, with all seeds."""
    epochs = sweep.training.epochs
    means = {
        setting: {
            metric: fmean(histories[-1][metric] for histories in histories_of)
            for metric in ("val_ece", "val_error")
        }
        for setting in curves.settings
        if setting.loss in SearchSpace(sweep.losses).branches or setting == BASELINE
        for histories_of in [[curves.history(setting, seed) for seed in curves.seeds]]
        if all(len(history) == epochs for history in histories_of)
    }
    limit = means[BASELINE]["val_error"] + sweep.search.guard
    feasible = [s for s in means if means[s]["val_error"] <= limit]
    setting = min(feasible, key=lambda s: means[s]["val_ece"])
    return Selected(
        setting, epochs, means[setting]["val_ece"], len(means) * len(curves.seeds) * epochs
    )


def by(objective: str) -> Callable[[Sequence[TrialRecord], Rule], Candidate | None]:
    """Selects by a metric other than the objective of the search."""
    return lambda records, rule: Ranking(records, replace(rule, objective=objective)).chosen


def with_search_seed(records: Sequence[TrialRecord], rule: Rule) -> Candidate | None:
    """Selects the finalist by the mean over all seeds, including the seed of the search."""
    ranking = Ranking(records, rule)
    most = max((c.seeds for c in ranking.candidates), default=0)
    found = [c for c in ranking.candidates if c.feasible and c.seeds == most]
    return min(
        found, key=lambda c: fmean(t.outcome[rule.objective] for t in c.trials), default=None
    )


def simplest(records: Sequence[TrialRecord], rule: Rule) -> Candidate | None:
    """Cross-entropy, or else a published setting, if within one standard error of the best.

    The standard error is that of the difference of two means over fresh seeds, with the seed
    variance pooled over all finalists.
    """
    ranking = Ranking(records, rule)
    best = ranking.chosen
    if best is None or best.seeds < 2:
        return best
    again = [c for c in ranking.candidates if c.feasible and c.seeds == best.seeds]
    values = [[t.outcome[rule.objective] for t in c.judged] for c in again]
    spread = fmean(sum((v - fmean(vs)) ** 2 for v in vs) / (len(vs) - 1) for vs in values)
    limit = best.objective + math.sqrt(2 * spread / best.seeds)
    order = {"baseline": 0, "published": 1, "search": 2}
    within = [c for c in again if c.objective <= limit]
    return min(within, key=lambda c: (order[c.trials[0].role], c.objective))


def _or_inf(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def tpe(seed: int, **options: bool | int) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ExperimentalWarning)
        return TPESampler(seed=seed, **options)  # type: ignore[arg-type]


def add_to_the_engine() -> None:
    """Register the stoppers and samplers of these benchmarks, so that sweep files can name them."""
    STOPPERS["asha_across"] = AcrossLosses
    SAMPLERS.update(
        {
            "tpe_univariate": tpe,
            "tpe_liar": partial(tpe, multivariate=True, group=True, constant_liar=True),
        }
    )


def published_first(*sets: str, **more: object) -> Calsweep:
    """The search with TPE and ASHA, which the groups vary that are not about guided searches."""
    return Calsweep(("search.sampler=tpe", "scheduler.name=asha", *sets), **more)  # type: ignore[arg-type]


def guided(*sets: str) -> Calsweep:
    """The search that temperatures guide."""
    return Calsweep(("search.sampler=guided", "scheduler.name=none", *sets))


def stop(**values: object) -> Calsweep:
    return published_first(*(f"scheduler.{key}={value}" for key, value in values.items()))


def suggest(sampler: str, **others: float) -> Calsweep:
    return published_first(f"search.sampler={sampler}", **others)


def _aim(objective: str) -> Calsweep:
    return published_first(f"search.objective={objective}")


def _finalists(count: int, seeds: int = 2) -> Calsweep:
    return published_first(f"selection.finalists={count}", f"selection.seeds={seeds}")


def trials(count: int) -> Calsweep:
    return published_first(f"search.trials={count}")


def _full(count: int) -> Calsweep:
    sets = (f"search.trials={count}", "search.sampler=random", "scheduler.name=none")
    return Calsweep(sets, published=0.0)


DEFAULT = "as it is"
POLICIES: dict[str, dict[str, Policy]] = {
    "tools": {
        DEFAULT: Calsweep(),
        "published first": published_first(),
        "everything recorded, 3 seeds": everything,
        "naive: random, lowest ECE of any epoch": Plain(SAMPLERS["random"], "val_ece", False, True),
        "Ray Tune + Optuna + ASHA on ECE": Plain(tpe, "val_ece", True),
        "Ray Tune + Optuna + ASHA on NLL": Plain(tpe, "val_nll", True),
    },
    "equal trainings": {
        DEFAULT: Calsweep(),
        "guided, from all recorded datasets": replace(guided(), prior="all"),
        "published first, 12 trials": trials(12),
        "random, 12 trials": _full(12),
    },
    "early_stopping": {
        "no stopping": stop(name="none"),
        "ASHA, scaled NLL": stop(metric="val_nll_scaled"),
        "ASHA, scaled NLL, across losses": stop(metric="val_nll_scaled", name="asha_across"),
        "ASHA, NLL, across losses": stop(name="asha_across"),
        "ASHA, error": stop(metric="val_error"),
        "ASHA, Brier": stop(metric="val_brier"),
        "ASHA, ECE": stop(metric="val_ece"),
        "ASHA, factor 2": stop(reduction_factor=2),
        "ASHA, factor 4": stop(reduction_factor=4),
        "ASHA, 1 epoch of grace": stop(grace_period=1),
        "ASHA, 5 epochs of grace": stop(grace_period=5),
    },
    "samplers": {
        "random": suggest("random"),
        "TPE, univariate": suggest("tpe_univariate"),
        "TPE, half published": suggest("tpe", published=0.5),
        "TPE, a fifth published": suggest("tpe", published=0.2),
        "TPE, none published": suggest("tpe", published=0.0),
        "random, none published": suggest("random", published=0.0),
        "TPE, 8 concurrent": suggest("tpe", at_once=8),
        "TPE with constant liar, 8 concurrent": suggest("tpe_liar", at_once=8),
    },
    "selection": {
        "objective debiased ECE": _aim("val_debiased_ece"),
        "objective smooth ECE": _aim("val_smooth_ece"),
        "objective adaptive ECE": _aim("val_adaptive_ece"),
        "objective NLL": _aim("val_nll"),
        "objective Brier": _aim("val_brier"),
        "objective scaled ECE": _aim("val_ece_scaled"),
        "objective ECE, selected by smooth ECE": published_first(judge=by("val_smooth_ece")),
        "objective ECE, selected by NLL": published_first(judge=by("val_nll")),
        "no finalists": _finalists(0),
        "1 finalist": _finalists(1),
        "2 finalists": _finalists(2),
        "5 finalists": _finalists(5),
        "10 finalists": _finalists(10),
        "selected by all seeds": published_first(judge=with_search_seed),
        "5 finalists, selected by all seeds": replace(_finalists(5), judge=with_search_seed),
        "10 finalists, selected by all seeds": replace(_finalists(10), judge=with_search_seed),
        "simplest within one SE": published_first(judge=simplest),
    },
    "objectives": {
        "ECE": _aim("val_ece"),
        "NLL": _aim("val_nll"),
        "refinement": _aim("refinement"),
        "Brier": _aim("val_brier"),
        "scaled Brier": _aim("val_brier_scaled"),
    },
    "budgets": {
        **{f"{count} trials": trials(count) for count in (4, 8, 20, 35, 100)},
    },
    "guided": {
        "guided": guided(),
        **{f"guided, {n} trials": guided(f"search.trials={n}") for n in (3, 5, 8, 20)},
        "guided, ASHA": guided("scheduler.name=asha"),
        "guided, a finalist of each loss": guided("selection.per_loss=true"),
    },
    "parts": {
        f"{sampler}{', no prior' * (prior == 'none')}, {rule} finalists, {count} trials": replace(
            make(f"search.trials={count}"), prior=prior, expected=rule == "expected"
        )
        for sampler, make in (("published first", published_first), ("guided", guided))
        for prior in PRIORS[:2]
        for rule in ("measured", "expected")
        for count in (3, 8, 20)
        if prior == "shipped" or sampler == "guided"  # else the prior has no effect
    },
    "random_search": {
        f"{count} random trials, nothing stopped": _full(count) for count in (50, 100, 200, 400)
    },
}
