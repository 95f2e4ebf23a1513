"""Initial settings from trials recorded on other datasets, by leave-one-dataset-out.

    python -m research.transfer FILE FILE FILE [--replays 48]

For each dataset, recorded settings are ranked by their mean gain on the *other* datasets:
validation ECE relative to that of cross-entropy; a setting outside the guard has no gain. Sweeps
are replayed with three kinds of initial settings, in at most half of the trials: the published
settings, alternating between losses (as it is); the published settings in the order of the ranking;
all recorded settings in that order. Prints the test ECE of the selected setting by number of
trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import fmean

import optuna

from benchmarks.tabular.curves import parser_of_recordings
from benchmarks.tabular.policies import Calsweep, published_first
from benchmarks.tabular.regret import QUICKSTART, Truth, load, mean_and_error
from benchmarks.tabular.replay import with_values
from sweeps.search.space import SearchSpace
from trainables.contract.setting import BASELINE, Setting

TRIALS = (6, 10, 16, 25, 35, 50)


def gains(truth: Truth) -> dict[Setting, float]:
    """Validation ECE of each setting relative to cross-entropy; 1 outside the guard."""
    limit = truth.mean(BASELINE, "val_error") + truth.sweep.search.guard
    usual = truth.mean(BASELINE, "val_ece")
    return {
        setting: truth.mean(setting, "val_ece") / usual
        if truth.mean(setting, "val_error") <= limit
        else 1.0
        for setting in truth.settings
    }


def ranked_by_other_datasets(truths: Mapping[str, Truth], left_out: str) -> list[Setting]:
    """Settings recorded on all datasets, ranked by mean gain on all but one; baseline first."""
    others = [gains(truth) for name, truth in truths.items() if name != left_out]
    common = set.intersection(*map(set, others), set(truths[left_out].settings)) - {BASELINE}
    by_gain = sorted(common, key=lambda s: (fmean(gain[s] for gain in others), str(s.key)))
    return [BASELINE, *by_gain]


def main() -> None:
    """Replay and print the table."""
    parser = parser_of_recordings(__doc__.splitlines()[0])
    parser.add_argument("--replays", type=int, default=48, help="replays of each policy")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    loaded = {Path(file).stem: load(file, [QUICKSTART]) for file in arguments.sweeps}
    truths = {name: truth for name, (truth, _) in loaded.items()}
    print(f"| dataset, first trials | {' | '.join(f'{n} trials' for n in TRIALS)} |")
    print("| --- " * (len(TRIALS) + 1) + "|", flush=True)
    for name, (truth, num_classes) in loaded.items():
        order = ranked_by_other_datasets(truths, name)
        published = SearchSpace(truth.sweep.losses).initial_settings(num_classes)
        known = [setting for setting in order if setting in published]
        kinds: dict[str, Sequence[Setting] | None] = {
            "published, in turn": None,
            "published, by gain on other datasets": known,
            f"any of {len(order)} recorded, by gain on other datasets": order,
        }
        for kind, initial in kinds.items():
            cells = []
            for trials in TRIALS:
                most = trials // 2 if initial is order else trials
                policy = published_first(initial=None if initial is None else tuple(initial[:most]))
                play = partial(_ece, policy, truth, num_classes, trials)
                cells.append(mean_and_error([play(n) for n in range(arguments.replays)]))
            print(f"| {name}, {kind} | {' | '.join(cells)} |", flush=True)


def _ece(policy: Calsweep, truth: Truth, num_classes: int, trials: int, number: int) -> float:
    orders = list(permutations(truth.curves.seeds))
    sweep = with_values(truth.sweep, [f"search.seed={number}", f"search.trials={trials}"])
    selected = policy(sweep, truth.curves, num_classes, orders[number % len(orders)])
    return truth.mean(selected.setting, "test_ece")


if __name__ == "__main__":
    main()
