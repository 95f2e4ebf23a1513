"""What `calsweep check` predicts for small sweeps, and how long they take.

    python -m benchmarks.durations [NAME...] [--set KEY=VALUE] [--debug]

`check` names an upper bound of a sweep's duration. Each sweep is predicted and then run, by the
command, in an empty folder; its seconds include the command's start. With ``--debug`` it runs
without Ray.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from ruamel.yaml import YAML

from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.data_preview import duration_of
from sweeps.search.plan import Plan
from sweeps.sweep_file.loading import load_sweep

_WORDS = {"sun": ("warm", "bright", "dry"), "rain": ("wet", "grey", "cold")}


def _table(folder: Path) -> dict[str, Any]:
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    pa.csv.write_csv(pa.Table.from_pandas(frame), folder / "data.csv")
    return {"name": "csv", "train": "data.csv", "label": "target"}


def _texts(folder: Path) -> dict[str, Any]:
    labels = [list(_WORDS)[number % 5 // 3] for number in range(2_000)]
    texts = [f"{_WORDS[each][n % 3]} day {n % 97} of {n % 89}" for n, each in enumerate(labels)]
    pa.csv.write_csv(pa.table({"text": texts, "label": labels}), folder / "data.csv")
    return {"name": "csv", "train": "data.csv", "text": "text", "label": "label"}


_DATA = {"digits": lambda _: {"name": "digits"}, "table": _table, "texts": _texts}
_SHORT = {"selection": {"finalists": 1, "seeds": 1}, "search": {"trials": 4}}
_AUTO = {"selection": {"finalists": 1, "seeds": "auto"}, "search": {"trials": 4}}
_ENSEMBLE = {"selection": {"finalists": 1, "ensemble": "if_supported"}, "search": {"trials": 4}}
SWEEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("digits", _SHORT),
    "digits, seeds: auto": ("digits", _AUTO),
    "digits, ensemble": ("digits", _ENSEMBLE),
    "table": ("table", _SHORT),
    "table, defaults": ("table", {}),
    "texts": ("texts", _SHORT),
    "texts, seeds: auto": ("texts", _AUTO),
}


def main() -> None:
    """Print one line per sweep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SWEEPS)}; default all")
    parser.add_argument("--set", action="append", default=[], help="as of calsweep run")
    parser.add_argument("--debug", action="store_true", help="as of calsweep run")
    arguments = parser.parse_args()
    options = ["--debug"] * arguments.debug
    print(f"{'sweep':24s}{'epoch':>8s}{'at most':>10s}{'took':>8s}{'share':>8s}{'load':>8s}")
    for name in arguments.names or SWEEPS:
        epoch, bound, took, load = _measure(*SWEEPS[name], arguments.set, options)
        share = took / bound
        print(f"{name:24s}{epoch:8.2f}{bound:10.0f}{took:8.0f}{share:8.2f}{load:8.1f}", flush=True)


def _measure(
    data: str, sections: dict[str, Any], overrides: list[str], options: list[str]
) -> tuple[float, float, float, float]:
    """Seconds of an epoch, of the bound and of the run; and the load before it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            sweep = {"name": "a", "losses": ["focal", "brier"], **sections}
            sweep["dataset"] = _DATA[data](Path(folder))
            YAML(typ="safe").dump(sweep, Path("a.yaml"))
            file = load_sweep("a.yaml", overrides)
            dataset = load_data(file)
            found = duration_of(Plan(fit_to_data(file, dataset)), dataset)
            assert found is not None
            load, start = os.getloadavg()[0], time.perf_counter()
            given = [word for override in overrides for word in ("--set", override)]
            command = [sys.executable, "-m", "sweeps.cli", "run", "a.yaml", *given, *options]
            subprocess.run(command, check=True, capture_output=True)
            return found.epoch, found.whole, time.perf_counter() - start, load
        finally:
            os.chdir(before)


if __name__ == "__main__":
    main()
