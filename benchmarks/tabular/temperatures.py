"""How well temperatures are predicted from other datasets and the baseline, by dataset and by loss.

    python -m benchmarks.tabular.temperatures benchmarks/tabular/*.yaml

Prints Markdown. The first table has for each dataset what a guided search predicts of all recorded
settings once the baseline is trained: the root mean square error of log T, and in brackets the log
loss of "its validation error respects the guard". Without other datasets, with all of them alike,
and weighted by similarity. The second has for each loss the settings that were recorded, Spearman's
correlation of log T with each number among its hyperparameters (whatever the others are; the mean
over datasets with at least five settings), and the error of log T by the weighted prediction.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy.stats import spearmanr

from benchmarks.tabular.curves import parser_of_recordings, read_trials
from benchmarks.tabular.priors import known_of, recorded
from sweeps.search.record import TrialRecord
from sweeps.search.recorded import RecordedSetting
from sweeps.search.rules import rule_of
from sweeps.search.setting_models import Places
from sweeps.search.space import SearchSpace
from sweeps.search.temperature_model import TemperatureModel
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import BASELINE

_FEWEST = 5  # settings of a loss on a dataset that have a correlation


def main() -> None:
    """Print both tables."""
    arguments = parser_of_recordings(__doc__.splitlines()[0]).parse_args()
    print("| dataset | settings | from the baseline alone | others alike | others by similarity |")
    print("| --- " * 5 + "|")
    errors: dict[str, list[float]] = defaultdict(list)
    correlations: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for file in map(Path, arguments.sweeps):
        sweep = load_sweep(str(file))
        trials = list(read_trials(file.with_suffix(".parquet")))
        known = [
            e
            for e in recorded(file.stem, trials)
            if e.setting.loss in SearchSpace(sweep.losses).branches
        ]
        known = [each for each in known if each.setting.loss != BASELINE.loss]
        first = next(history for setting, _, history in trials if setting == BASELINE)
        history: list[Mapping[str, float]] = list(first)
        baseline = TrialRecord(0, "baseline", BASELINE, 0, 0.0, "finished", history=history)
        others = known_of(sweep)
        alike = [replace(each, baseline_error=None) for each in others]
        found = [predicted(sweep, baseline, given, known) for given in ([], alike, others)]
        cells = (f"{np.sqrt(np.mean(wrong**2)):.3f} ({loss:.2f})" for wrong, loss in found)
        print(f"| {file.stem} | {len(known)} | {' | '.join(cells)} |", flush=True)
        for each, wrong in zip(known, found[-1][0], strict=True):
            errors[each.setting.loss].append(float(wrong))
        for loss in {each.setting.loss for each in known}:
            own = [each for each in known if each.setting.loss == loss]
            for name, value in _correlations(own).items():
                correlations[loss][name].append(value)
    print("\n| loss | settings | correlation of log T | error of log T |\n" + "| --- " * 4 + "|")
    for loss, wrong in sorted(errors.items()):
        signs = (f"{name} {fmean(values):+.2f}" for name, values in correlations[loss].items())
        error = math.sqrt(fmean(each**2 for each in wrong))
        print(f"| {loss} | {len(wrong)} | {', '.join(signs) or '–'} | {error:.2f} |")


def predicted(
    sweep: SweepFile,
    baseline: TrialRecord,
    earlier: Sequence[RecordedSetting],
    known: Sequence[RecordedSetting],
) -> tuple[np.ndarray, float]:
    """The errors of the predicted log T of known settings, and the log loss of the guard."""
    places = Places(SearchSpace(sweep.losses).branches)
    earlier = [e for e in earlier if places.knows(e.setting)]
    any_number = 10  # of classes, which matter for the objective alone
    model = TemperatureModel(places, rule_of(sweep), earlier, [baseline], any_number)
    belief = model.belief([each.setting for each in known])
    log_t = np.array([each.log_ratio for each in known]) + model.baseline.log_t
    allowed = sweep.search.guard / model.baseline.error
    kept = np.array([each.error_ratio <= allowed for each in known])
    chance = np.clip(np.where(kept, belief.in_guard, 1 - belief.in_guard), 1e-3, 1)
    return belief.log_t.mean - log_t, float(-np.log(chance).mean())


def _correlations(settings: Sequence[RecordedSetting]) -> dict[str, float]:
    """Spearman's correlation of the log ratio with each number that varies."""
    if len(settings) < _FEWEST:
        return {}
    ratios = [each.log_ratio for each in settings]
    columns = {
        name: [each.setting.hyperparameters[name] for each in settings]
        for name, value in settings[0].setting.hyperparameters.items()
        if isinstance(value, int | float)
    }
    return {
        name: float(spearmanr(values, ratios).statistic)
        for name, values in columns.items()
        if len(set(values)) > 1
    }


if __name__ == "__main__":
    main()
