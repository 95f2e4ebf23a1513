"""Compares search policies by replaying them on recorded trials.

    python -m benchmarks.tabular.regret benchmarks/tabular/digits.yaml [...] [--replays 100]
        [--only early_stopping ...] [--set search.trials=150 ...] [--degenerate 0.2]

Each policy is replayed with many seeds of its sampler. The recorded seeds take turns as seeds of
the search and of the finalists, in the same way for all policies. A selected setting is evaluated
by its mean test error and ECE over all recorded seeds. Prints a table for each dataset:

- test ECE of the selected setting, and its regret, the difference to the best (see
  :class:`Truth`);
- its difference from the default, paired over replays;
- how often the selected setting is within one standard error of the best;
- optimism: test ECE minus the validation ECE used for selection;
- NLL (refinement) and Brier score on the test split after the temperature;
- test error, and how often it is at least 5 points above the baseline's (degenerate), or above the
  baseline's by more than the guard (beyond the guard);
- trained epochs.

Values are means with standard errors over replays. These do not include variation that all replays
share: the recorded seeds, and the samples of the validation and test splits.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from pathlib import Path
from statistics import fmean, stdev, variance

import optuna

from benchmarks.tabular.curves import (
    Curves,
    of_common_seeds,
    parser_of_recordings,
    read_trials,
    with_degenerate,
    with_error_intervals,
)
from benchmarks.tabular.policies import DEFAULT, POLICIES, add_to_the_engine
from benchmarks.tabular.replay import with_values
from benchmarks.tabular.selected import Policy
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.messages import Entry
from trainables.contract.setting import BASELINE, Setting

QUICKSTART = (
    "losses=[cross_entropy, label_smoothing, focal, dual_focal, focal_calibration, inverse_focal, "
    "mbls, cals_alm, mmce, r_aurc]"
)
DEGENERATE = 0.05  # difference of the test error to the baseline's


@dataclass(frozen=True)
class Truth:
    """Test metrics of the recorded settings, over the seeds.

    The setting with the lowest mean over the recorded seeds is partly lucky. So the best ECE is
    cross-validated over seeds: for each seed, the setting is selected by the test metrics of the
    other seeds, within the guard, and evaluated with the seed that was left out; the result is the
    mean over seeds. It is still optimistic about the samples of the test split, which all seeds
    share.

    Attributes:
        curves: The recorded trials.
        sweep: The sweep; its losses, guard and number of epochs are used.
    """

    curves: Curves
    sweep: SweepFile

    def mean(self, setting: Setting, metric: str, epoch: int | None = None) -> float:
        """Mean over the recorded seeds, without trials that diverged.

        Args:
            setting: A recorded setting.
            metric: Name of the metric with its split, such as ``test_ece``.
            epoch: The epoch; None for the last.
        """
        return fmean(entry[metric] for entry in self.last(setting, epoch))

    @cached_property
    def settings(self) -> list[Setting]:
        """The recorded settings of the sweep's losses that never diverged."""
        losses = {section.name for section in self.sweep.losses} | {BASELINE.loss}
        number = len(self.curves.seeds)
        known = (setting for setting in self.curves.settings if setting.loss in losses)
        return [setting for setting in known if len(self.last(setting)) == number]

    @cached_property
    def best(self) -> float:
        """The best test ECE; see the class."""
        number = len(self.curves.seeds)
        return fmean(self._best_without(seed) for seed in range(number))

    def _best_without(self, left_out: int) -> float:
        ece, error = self._tables
        others = [seed for seed in range(len(self.curves.seeds)) if seed != left_out]
        limit = fmean(error[BASELINE][s] for s in others) + self.sweep.search.guard
        feasible = [s for s in ece if fmean(error[s][o] for o in others) <= limit]
        best = min(feasible, key=lambda s: fmean(ece[s][o] for o in others))
        return ece[best][left_out]

    @cached_property
    def standard_error(self) -> float:
        """Standard error of the difference of two mean test ECEs, from all feasible settings."""
        ece, error = self._tables
        limit = fmean(error[BASELINE]) + self.sweep.search.guard
        spread = fmean(variance(ece[s]) for s in ece if fmean(error[s]) <= limit)
        return math.sqrt(2 * spread / len(self.curves.seeds))

    @cached_property
    def _tables(self) -> tuple[dict[Setting, list[float]], dict[Setting, list[float]]]:
        """Test ECE and test error of each setting, by seed."""
        ece, error = (
            {s: [entry[metric] for entry in self.last(s)] for s in self.settings}
            for metric in ("test_ece", "test_error")
        )
        return ece, error

    def last(self, setting: Setting, epoch: int | None = None) -> list[Entry]:
        """Entries of a setting's trials after an epoch, by default the last, one per seed."""
        number = epoch or self.sweep.training.epochs
        histories = (self.curves.history(setting, seed) for seed in self.curves.seeds)
        return [history[number - 1] for history in histories if len(history) >= number]


@dataclass(frozen=True)
class Row:
    """The result of one replay; the columns of the table."""

    ece: float
    within: float
    optimism: float
    nll_scaled: float
    brier_scaled: float
    error: float
    degenerate: float
    beyond_guard: float
    epochs: float


def run(policy: Policy, sweep: SweepFile, truth: Truth, num_classes: int, number: int) -> Row:
    """One replay; its number is the seed of the sweep, and determines the recorded seeds."""
    orders = list(permutations(truth.curves.seeds))
    seeds = orders[number % len(orders)]
    with_seed = with_values(sweep, [f"search.seed={number}"])
    selected = policy(with_seed, truth.curves, num_classes, seeds)
    ece, nll, brier, error = (
        truth.mean(selected.setting, f"test_{metric}", selected.epoch)
        for metric in ("ece", "nll_scaled", "brier_scaled", "error")
    )
    excess = error - truth.mean(BASELINE, "test_error")
    return Row(
        ece=ece,
        within=float(ece - truth.best <= truth.standard_error),
        optimism=ece - selected.promised,
        nll_scaled=nll,
        brier_scaled=brier,
        error=error,
        degenerate=float(excess > DEGENERATE),
        beyond_guard=float(excess > sweep.search.guard),
        epochs=float(selected.epochs),
    )


def main() -> None:
    """Replay all policies and print the tables."""
    add_to_the_engine()
    parser = parser_of_recordings(__doc__.splitlines()[0])
    parser.add_argument("--replays", type=int, default=100, help="replays of each policy")
    parser.add_argument(
        "--only",
        nargs="*",
        choices=list(POLICIES),
        default=list(POLICIES),
        help="groups of policies; by default all",
    )
    add_sets(parser)
    parser.add_argument(
        "--degenerate",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the settings to replace by constant classifiers",
    )
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    policies = {name: each for group in arguments.only for name, each in POLICIES[group].items()}
    for file in arguments.sweeps:
        truth, num_classes = load(file, arguments.set, arguments.degenerate)
        _print_table(file, truth, num_classes, policies, arguments.replays)


def add_sets(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--set``, whose values come after :data:`QUICKSTART`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[QUICKSTART],
        metavar="KEY=VALUE",
        help="replace a value of the sweeps, such as search.trials=150",
    )


def load(file: str, sets: Sequence[str] = (), degenerate: float = 0.0) -> tuple[Truth, int]:
    """A recorded dataset, and its number of classes.

    Args:
        file: The sweep file, next to the file with the recorded trials.
        sets: Values of the sweep to replace, ``KEY=VALUE`` each. If finalists would get more fresh
            seeds than were recorded, they get these.
        degenerate: Share of the settings to replace by constant classifiers.
    """
    recorded = load_sweep(file)
    data = load_data(recorded)
    num_classes = data.num_classes
    trials = of_common_seeds(list(read_trials(Path(file).with_suffix(".parquet"))))
    trials = with_error_intervals(trials, len(data.validation))
    if degenerate:
        trials = with_degenerate(trials, degenerate, num_classes, seed=0)
    curves = Curves(trials, SearchSpace(recorded.losses))
    sweep = load_sweep(file, list(sets))
    if len(sweep.seeds) > len(curves.seeds):  # finalists get the fresh seeds that were recorded
        sweep = with_values(sweep, [f"selection.seeds={len(curves.seeds) - 1}"])
    return Truth(curves, sweep), num_classes


def _print_table(
    file: str, truth: Truth, num_classes: int, policies: dict[str, Policy], replays: int
) -> None:
    print(
        f"\n{Path(file).stem}: {len(truth.settings)} settings, {replays} replays; the best there "
        f"is: test ECE {truth.best:.4f} ± {truth.standard_error:.4f}; cross-entropy: "
        f"{truth.mean(BASELINE, 'test_ece'):.4f}, NLL scaled "
        f"{truth.mean(BASELINE, 'test_nll_scaled'):.4f}, Brier scaled "
        f"{truth.mean(BASELINE, 'test_brier_scaled'):.4f}, test error "
        f"{truth.mean(BASELINE, 'test_error'):.4f}\n"
    )
    print(
        "| policy | test ECE | regret | − default's | within one SE | optimism | NLL scaled | "
        "Brier scaled | test error | degenerate | beyond the guard | epochs |"
    )
    print("| --- " * 12 + "|", flush=True)

    def rows_of(policy: Policy) -> list[Row]:
        return [run(policy, truth.sweep, truth, num_classes, n) for n in range(replays)]

    usual = rows_of(POLICIES["tools"][DEFAULT])
    for name, policy in policies.items():
        rows = usual if name == DEFAULT else rows_of(policy)
        ours = [row.ece for row in rows]
        columns = (
            ours,
            [ece - truth.best for ece in ours],
            [row.ece - other.ece for row, other in zip(rows, usual, strict=True)],
            [row.within for row in rows],
            [row.optimism for row in rows],
            [row.nll_scaled for row in rows],
            [row.brier_scaled for row in rows],
            [row.error for row in rows],
            [row.degenerate for row in rows],
            [row.beyond_guard for row in rows],
            [row.epochs for row in rows],
        )
        print(f"| {name} | {' | '.join(map(mean_and_error, columns))} |", flush=True)


def mean_and_error(values: Sequence[float]) -> str:
    """Mean ± standard error, rounded to two digits of the standard error."""
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    decimals = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 4
    mean = fmean(values)
    return f"{mean:.{min(decimals, 5)}f} ± {error:.{min(decimals, 5)}f}" if error else f"{mean:.4g}"


if __name__ == "__main__":
    main()
