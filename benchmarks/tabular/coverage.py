"""How often a guided search's predictions hold: predicted against measured validation objectives.

    python -m benchmarks.tabular.coverage benchmarks/tabular/*.yaml [--factors 1 1.5 2]

A guided search is replayed on each dataset, with the records of the other datasets, once for each
recorded seed. After 1, 5 and 9 trials it predicts the objective of every recorded setting that it
has not tried, as a normal distribution; the noise of a single measurement is added. Prints for each
dataset the share of settings whose measured objective lies in the central 50, 80 and 95 % of the
prediction, the share below its 10 % quantile (better than expected), and the log score; and the
same with standard deviations multiplied by each of the factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import optuna
from scipy.stats import norm

from benchmarks.tabular.curves import Curves, parser_of_recordings
from benchmarks.tabular.priors import known_of
from benchmarks.tabular.regret import load
from benchmarks.tabular.replay import replay, with_values
from sweeps.search.record import TrialRecord
from sweeps.search.recorded import RecordedSetting
from sweeps.search.rules import rule_of
from sweeps.search.setting_models import Places
from sweeps.search.space import SearchSpace
from sweeps.search.temperature_model import TemperatureModel
from sweeps.sweep_file.schema import SweepFile

AFTER = (1, 5, 9)
CENTRAL = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Predicted:
    """Predictions of S settings: mean and standard deviation, and what was measured, (S,) each."""

    mean: np.ndarray
    sd: np.ndarray
    measured: np.ndarray

    def row(self, factor: float) -> list[str]:
        """Coverages, share below the 10 % quantile, and log score, in words."""
        z = (self.measured - self.mean) / (factor * self.sd)
        inside = [np.mean(np.abs(z) <= norm.ppf(0.5 + level / 2)) for level in CENTRAL]
        score = np.mean(-0.5 * z**2 - np.log(factor * self.sd) - 0.5 * np.log(2 * np.pi))
        return [*(f"{each:.2f}" for each in (*inside, np.mean(z < norm.ppf(0.1)))), f"{score:.2f}"]


def main() -> None:
    """Print the table."""
    parser = parser_of_recordings((__doc__ or "").splitlines()[0])
    parser.add_argument("--factors", type=float, nargs="+", default=(1.0,))
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    print("| dataset | trials | factor | in 50 % | in 80 % | in 95 % | below 10 % | log score |")
    print("| --- " * 8 + "|")
    for file in arguments.sweeps:
        truth, num_classes = load(file, [])
        found: dict[int, list[Predicted]] = {count: [] for count in AFTER}
        for order in permutations(truth.curves.seeds):
            if order[0] != truth.curves.seeds[0] and order[1] > order[2]:
                continue  # fresh seeds in another order predict the same
            for count, predicted in predictions(truth.sweep, truth.curves, num_classes, order):
                found[count].append(predicted)
        for count, parts in found.items():
            if not parts:
                continue
            whole = Predicted(
                *(np.concatenate([getattr(p, name) for p in parts]) for name in vars(parts[0]))
            )
            for factor in arguments.factors:
                cells = " | ".join(whole.row(factor))
                print(f"| {Path(file).stem} | {count} | {factor:g} | {cells} |", flush=True)


def predictions(
    sweep: SweepFile, curves: Curves, num_classes: int, seeds: Sequence[int]
) -> Iterator[tuple[int, Predicted]]:
    """What a replayed search predicts after some numbers of trials."""
    sets = ("search.sampler=guided", "scheduler.name=none", f"selection.seeds={len(seeds) - 1}")
    sweep = with_values(sweep, sets)
    earlier = known_of(sweep)
    own = seeds[: len(sweep.seeds)]
    records = replay(sweep, curves, num_classes, own, recorded=earlier)
    searched = [each for each in records if each.role != "finalist"]
    for count in AFTER:
        if count <= len(searched):
            yield count, predict(sweep, curves, num_classes, earlier, searched[:count], seeds[0])


def predict(
    sweep: SweepFile,
    curves: Curves,
    num_classes: int,
    earlier: Sequence[RecordedSetting],
    records: Sequence[TrialRecord],
    seed: int,
) -> Predicted:
    """The predictions of all untried settings, with the noise of one measurement."""
    places, rule = Places(SearchSpace(sweep.losses).branches), rule_of(sweep)
    known = [each for each in earlier if places.knows(each.setting)]
    model = TemperatureModel(places, rule, known, records, num_classes)
    tried = {record.setting for record in records}
    left = [s for s in curves.settings if places.knows(s) and s not in tried]
    last = [curves.history(setting, seed)[-1] for setting in left]
    whole = [
        (setting, entry[rule.objective])
        for setting, entry in zip(left, last, strict=True)
        if entry["epoch"] >= sweep.training.epochs
    ]
    settings, measured = zip(*whole, strict=True)
    guess = model.objective(model.belief(settings))
    return Predicted(guess.mean, np.hypot(guess.sd, model.baseline.noise), np.array(measured))


if __name__ == "__main__":
    main()
