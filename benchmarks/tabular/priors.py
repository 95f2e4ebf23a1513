"""Write the table of recorded settings that a guided search starts from.

    python -m benchmarks.tabular.priors benchmarks/tabular/*.yaml

Prints CSV: for each setting of each recorded dataset, the mean over seeds of log(T / T of
cross-entropy) and of the error as a share of cross-entropy's, both on the validation split.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from benchmarks.tabular.curves import Trials, parser_of_recordings, read_trials
from sweeps.search.record import flat
from sweeps.search.recorded import RecordedSetting, recorded_settings
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.messages import Entry
from trainables.contract.setting import BASELINE, Setting


def recorded(name: str, trials: Trials) -> list[RecordedSetting]:
    """The settings of a recorded dataset whose trials reached the last epoch."""
    last: dict[Setting, list[Entry]] = {}
    known = list(trials)
    epochs = max(len(history) for _, _, history in known)
    for setting, _, history in known:
        if len(history) == epochs:
            last.setdefault(setting, []).append(history[-1])
    log_t = {s: fmean(math.log(e["temperature"]) for e in each) for s, each in last.items()}
    error = {s: fmean(e["val_error"] for e in each) for s, each in last.items()}
    return [
        RecordedSetting(
            source=name,
            setting=setting,
            log_ratio=round(log_t[setting] - log_t[BASELINE], 3),
            error_ratio=round(error[setting] / error[BASELINE] - 1, 3),
            baseline_error=round(error[BASELINE], 4),
        )
        for setting in last
    ]


Prior = Literal["shipped", "none", "all"]
PRIORS: tuple[Prior, ...] = get_args(Prior)
"""What a guided search starts from: nothing, the settings that calsweep has, or all recorded."""


def known_of(sweep: SweepFile, prior: Prior = "shipped") -> list[RecordedSetting]:
    """Recorded settings, except those on the data of the sweep."""
    name = sweep.name.removeprefix("tabular-").removeprefix("wide-").replace("-", "_")
    name = name.removesuffix("_resnet")
    if prior == "none":
        return []
    known = recorded_settings() if prior == "shipped" else _all_recorded()
    return [e for e in known if e.source.removesuffix("_resnet") != name]


@cache
def _all_recorded() -> tuple[RecordedSetting, ...]:
    folder = Path(__file__).parent
    files = [*folder.glob("*.yaml"), *folder.glob("wide/*.yaml")]
    tables = {file.stem: file.with_suffix(".parquet") for file in sorted(files)}
    return tuple(e for name, path in tables.items() for e in recorded(name, read_trials(path)))


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    """Print the table."""
    arguments = parser_of_recordings(__doc__.splitlines()[0]).parse_args()
    columns = (
        "source",
        "loss",
        "hyperparameters",
        "log_ratio",
        "error_ratio",
        "baseline_error",
    )
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(columns)
    for file in map(Path, arguments.sweeps):
        for each in recorded(file.stem, read_trials(file.with_suffix(".parquet"))):
            values = flat(each)
            rounded = {name: _rounded(value) for name, value in values["hyperparameters"].items()}
            values["hyperparameters"] = json.dumps(rounded, sort_keys=True)
            table.writerow([values[name] for name in columns])


if __name__ == "__main__":
    main()
