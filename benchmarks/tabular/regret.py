"""Which defaults earn their keep: policies of search replayed on recorded trials.

    python -m benchmarks.tabular.regret benchmarks/tabular/digits.yaml [--replays 100] [POLICY ...]

Each policy is replayed with many seeds of its sampler, the recorded seeds taking turns as those of
the search and of the finalists. Its choice is judged by the recorded setting's mean test error and
ECE over all seeds. Prints a table: test ECE of the choice, how far that is above the best there is
(regret), how often it is within one standard error of it, how far it is above what validation
promised (optimism), test error, and epochs spent; means with their standard errors.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from pathlib import Path
from statistics import fmean, stdev

import optuna

from benchmarks.tabular.curves import Curves, read_trials
from benchmarks.tabular.replay import replay
from sweeps.runner import load_data
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.setting import BASELINE, Setting
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile

POLICIES: dict[str, list[str]] = {
    "as it is": [],
    "random": ["search.sampler=random"],
    "nothing stopped": ["scheduler.name=none"],
    "random, nothing stopped": ["search.sampler=random", "scheduler.name=none"],
    "stop by scaled NLL": ["scheduler.metric=val_nll_scaled"],
    "stop by error": ["scheduler.metric=val_error"],
    "stop by Brier score": ["scheduler.metric=val_brier"],
    "aim at scaled ECE": ["search.objective=val_ece_scaled"],
    "aim at debiased ECE": ["search.objective=val_debiased_ece"],
    "aim at smooth ECE": ["search.objective=val_smooth_ece"],
    "aim at NLL": ["search.objective=val_nll"],
    "one finalist": ["selection.finalists=1"],
    "ten finalists": ["selection.finalists=10"],
    "no finalists": ["selection.finalists=0"],
}
GUARD = 0.01


@dataclass(frozen=True)
class Truth:
    """What the recorded settings do on the test split at their last epoch, over the seeds."""

    curves: Curves
    epochs: int
    num_classes: int

    def mean(self, setting: Setting, metric: str) -> float:
        """Mean over the recorded seeds; NaN where a trial diverged."""
        return fmean(self._values(setting, metric))

    def within_one_error(self, setting: Setting) -> bool:
        """Whether a setting's test ECE is within one standard error of the best's."""
        ours, best = (self._values(each, "test_ece") for each in (setting, self.best))
        errors = [stdev(values) ** 2 / len(values) for values in (ours, best)]
        return fmean(ours) - fmean(best) <= math.sqrt(sum(errors))

    @cached_property
    def best(self) -> Setting:
        """The setting of the lowest test ECE, of those whose test error is within the guard."""
        limit = self.mean(BASELINE, "test_error") + GUARD
        feasible = [s for s in self.curves.settings if self.mean(s, "test_error") <= limit]
        return min(feasible, key=lambda setting: self.mean(setting, "test_ece"))

    def _values(self, setting: Setting, metric: str) -> list[float]:
        histories = (self.curves.history(setting, seed) for seed in self.curves.seeds)
        return [
            history[-1][metric] if len(history) == self.epochs else math.nan
            for history in histories
        ]


def main() -> None:
    """Replay all policies and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path)
    parser.add_argument("policies", nargs="*", metavar="POLICY", help=", ".join(POLICIES))
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--trials", type=int, default=50)
    arguments = parser.parse_args()
    if unknown := set(arguments.policies) - POLICIES.keys():
        parser.error(f"no policy {', '.join(unknown)}; there are: {', '.join(POLICIES)}")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    base = load_sweep(str(arguments.sweep))
    trials = read_trials(arguments.sweep.with_suffix(".parquet"))
    curves = Curves(trials, SearchSpace(base))
    truth = Truth(curves, base.training.epochs, load_data(base).num_classes)
    print(f"best: {truth.best}, test ECE {truth.mean(truth.best, 'test_ece'):.4f}")
    print("| policy | test ECE | regret | within one SE | optimism | test error | epochs |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in arguments.policies or POLICIES:
        sets = [f"search.trials={arguments.trials}", *POLICIES[name]]
        rows = [
            _row(load_sweep(str(arguments.sweep), [*sets, f"search.seed={number}"]), truth, number)
            for number in range(arguments.replays)
        ]
        print(f"| {name} | {' | '.join(_mean(column) for column in zip(*rows, strict=True))} |")


def _row(sweep: SweepFile, truth: Truth, number: int) -> tuple[float, ...]:
    """What one replay came to."""
    orders = list(permutations(truth.curves.seeds, len(sweep.seeds)))
    records = replay(sweep, truth.curves, truth.num_classes, orders[number % len(orders)])
    chosen = Ranking(records, sweep.rule).chosen
    setting = truth.curves.nearest(chosen.setting if chosen else BASELINE)
    ece = truth.mean(setting, "test_ece")
    promised = chosen.mean("val_ece") if chosen else math.nan
    return (
        ece,
        ece - truth.mean(truth.best, "test_ece"),
        float(truth.within_one_error(setting)),
        ece - promised,
        truth.mean(setting, "test_error"),
        float(_epochs(records)),
    )


def _epochs(records: list[TrialRecord]) -> int:
    return sum(record.epochs for record in records)


def _mean(values: tuple[float, ...]) -> str:
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{fmean(values):.4g} ± {error:.2g}"


if __name__ == "__main__":
    main()
