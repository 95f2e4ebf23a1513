"""What the recorded trials say about the papers' claims.

    python -m benchmarks.tabular.findings FILE [...]

Prints these tables for each dataset: (1) every loss at its first published setting: temperature,
ECE and NLL before and after temperature scaling, with ranks among the losses; (2) for every loss
with a γ, the setting with the lowest validation ECE within the guard, next to the published ones;
(3) the noise of the ECE: standard deviations over seeds and over samples, and the number of samples
needed to detect a difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev, variance

from benchmarks.tabular.curves import parser_of_recordings
from benchmarks.tabular.regret import Truth, load
from sweeps.messages.formatting import format_hyperparameters
from sweeps.planning.data import load_data
from sweeps.search.space import SearchSpace
from sweeps.sweep_file.loading import load_sweep
from trainables.contract.setting import BASELINE, Setting

SEEN = 1.96 + 0.84  # standard errors for a level of 95 % and a power of 80 %


def main() -> None:
    """Print the tables."""
    parser = parser_of_recordings(__doc__.splitlines()[0])
    for file in parser.parse_args().sweeps:
        truth, num_classes = load(file)
        print(f"\n## {Path(file).stem}: {len(truth.settings)} settings\n")
        _print_losses(truth, num_classes)
        _print_gammas(truth, num_classes)
        data = load_data(load_sweep(file))
        _print_chance(truth, len(data.validation), len(data.test))


def _print_losses(truth: Truth, num_classes: int) -> None:
    initial = SearchSpace(truth.sweep.losses).initial_settings(num_classes)
    first: dict[str, Setting] = {}
    for setting in initial:
        if setting in truth.settings:
            first.setdefault(setting.loss, setting)
    metrics = ("test_ece", "test_ece_scaled", "test_nll", "test_nll_scaled")
    means = {m: {s: truth.mean(s, m) for s in first.values()} for m in metrics}
    place = {
        m: {s: 1 + i for i, s in enumerate(sorted(v, key=v.__getitem__))} for m, v in means.items()
    }
    print("| loss | T | " + " | ".join(m.removeprefix("test_") for m in metrics) + " | error |")
    print("| --- " * (len(metrics) + 3) + "|")
    for setting in sorted(first.values(), key=means["test_ece"].__getitem__):
        cells = (f"{_of(truth, setting, m)} ({place[m][setting]})" for m in metrics)
        t, error = (_of(truth, setting, m) for m in ("temperature", "test_error"))
        print(f"| {_words(setting)} | {t} | {' | '.join(cells)} | {error} |")


def _print_gammas(truth: Truth, num_classes: int) -> None:
    limit = truth.mean(BASELINE, "val_error") + truth.sweep.search.guard
    space = SearchSpace(truth.sweep.losses)
    published = space.initial_settings(num_classes)
    print("\n| loss | recorded | published | lowest val ECE at | val ECE | published's lowest |")
    print("| --- " * 6 + "|")
    for loss, branch in space.branches.items():
        known = [s for s in truth.settings if s.loss == loss]
        feasible = [s for s in known if truth.mean(s, "val_error") <= limit]
        if "gamma" not in branch or not feasible:
            continue
        best = min(feasible, key=lambda s: truth.mean(s, "val_ece"))
        papers = [s for s in feasible if s in published]
        gammas = sorted({s.hyperparameters["gamma"] for s in published if s.loss == loss})
        lowest = min((truth.mean(s, "val_ece") for s in papers), default=math.nan)
        print(
            f"| {loss} | {len(known)} | γ {', '.join(f'{g:g}' for g in gammas)} | {_words(best)} | "
            f"{_of(truth, best, 'val_ece')} | {lowest:.4f} |"
        )


def spreads(truth: Truth, validation: int, test: int) -> tuple[float, float]:
    """Standard deviations of the ECE over seeds, and over samples (for a single sample).

    Apart from effects that all settings share (a harder split), the difference between validation
    and test ECE of one network is noise; its variance over settings is σ² (1/n + 1/m).

    Args:
        truth: The recorded trials; those within the guard are used.
        validation: Number n of validation samples.
        test: Number m of test samples.
    """
    entries = [truth.last(setting) for setting in _feasible(truth)]
    seeds = math.sqrt(fmean(variance(e["test_ece"] for e in each) for each in entries))
    gaps = [
        [each[number]["test_ece"] - each[number]["val_ece"] for each in entries]
        for number in range(len(truth.curves.seeds))
    ]
    return seeds, math.sqrt(fmean(map(variance, gaps)) / (1 / validation + 1 / test))


def _feasible(truth: Truth) -> list[Setting]:
    limit = truth.mean(BASELINE, "test_error") + truth.sweep.search.guard
    return [s for s in truth.settings if truth.mean(s, "test_error") <= limit]


def _print_chance(truth: Truth, validation: int, test: int) -> None:
    feasible = _feasible(truth)
    seeds, within = spreads(truth, validation, test)
    levels = sorted(truth.mean(s, "test_ece") for s in feasible)
    usual = truth.mean(BASELINE, "test_ece")
    middle = levels[len(levels) // 2]
    pairs = (
        ("cross-entropy and the best", usual - truth.best),
        ("the median setting and the best", middle - truth.best),
        ("the 10th percentile and the best", levels[len(levels) // 10] - truth.best),
    )
    print(
        f"\n{len(feasible)} settings within the guard. Standard deviation of the ECE over seeds "
        f"{seeds:.4f}; over samples, relative to other networks on the same samples, "
        f"{within / math.sqrt(validation):.4f} with {validation} of them.\n"
    )
    print("| difference of | test ECE | seeds each, unlimited samples | samples, unlimited seeds |")
    print("| --- " * 4 + "|")
    for words, gap in pairs:
        if gap <= 0:
            print(f"| {words} | {gap:.4f} | – | – |")
            continue
        many = math.ceil(2 * (SEEN * seeds / gap) ** 2)
        samples = math.ceil(2 * (SEEN * within / gap) ** 2)
        print(f"| {words} | {gap:.4f} | {many} | {samples:,} |")


def _of(truth: Truth, setting: Setting, metric: str) -> str:
    """Mean ± standard error over the seeds."""
    values: Sequence[float] = [entry[metric] for entry in truth.last(setting)]
    decimals = 2 if metric == "temperature" else 4 if "ece" in metric else 3
    return f"{fmean(values):.{decimals}f} ± {stdev(values) / math.sqrt(len(values)):.{decimals}f}"


def _words(setting: Setting) -> str:
    return f"{setting.loss} {format_hyperparameters(setting.hyperparameters)}".strip()


if __name__ == "__main__":
    main()
