"""Results of ``calsweep judge`` for a folder of predictions, one row per network.

``python -m benchmarks.published FOLDER`` reads every npz, npy, CSV and Parquet file in the folder
and prints a Markdown table. Each network is judged separately, so the files may contain predictions
on different data. Files that cannot be judged are listed below the table with the reason.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sweeps.errors import UserError
from sweeps.judging.event_sentences import with_interval
from sweeps.judging.facts import Gap, Judged
from sweeps.judging.judgement import judge
from sweeps.judging.reading import read_predictions
from sweeps.judging.sentences import METHODS, signed
from sweeps.judging.tables import Asked

SUFFIXES = (".npz", ".npy", ".csv", ".parquet")
COLUMNS = (
    "file",
    "network",
    "samples",
    "error",
    "ECE",
    "confidence − accuracy",
    "temperature",
    "NLL",
    "NLL, scaled",
    "ECE, scaled",
    "recommended",
)


def table_of(
    folder: Path, *, logits: bool = False, labels: str | None = None
) -> tuple[list[list[str]], list[str]]:
    """A row for each network in the folder, and a line for each file that cannot be judged."""
    rows, refused = [], []
    for file in sorted(each for each in folder.iterdir() if each.suffix in SUFFIXES):
        if labels is not None and file.resolve() == Path(labels).resolve():
            continue
        try:
            models = read_predictions([str(file)], Asked(logits=logits, labels=labels))
            rows += [[file.name, *_cells(judge([model]).models[0])] for model in models]
        except UserError as error:
            refused.append(f"{file.name}: {error}")
    return rows, refused


def _cells(model: Judged) -> list[str]:
    way, found = Gap(*model.direction.gap), model.scaling
    assert found is not None
    scaled = found.methods.get(found.recommended, model.metrics)  # "none" is as given
    return [
        model.name,
        f"{model.samples:,}",
        with_interval(model.metrics["error"]),
        with_interval(model.metrics["ece"]),
        signed(way, way.gap),
        f"{found.temperature:.3f}",
        with_interval(model.metrics["nll"]),
        with_interval(scaled["nll"]),
        with_interval(scaled["ece"]),
        METHODS[found.recommended],
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 2 if no file could be judged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder of prediction files")
    parser.add_argument("--logits", action="store_true", help="the values are logits")
    parser.add_argument("--labels", help="an npy file of labels, for files without labels")
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        parser.error(f"folder: {given.folder} is not a folder; give a folder of prediction files")
    rows, refused = table_of(given.folder, logits=given.logits, labels=given.labels)
    if rows:
        for row in (COLUMNS, ["---"] * len(COLUMNS), *rows):
            print(f"| {' | '.join(row)} |")
    for line in refused:
        print(f"not judged: {line}", file=sys.stderr)
    if not rows:
        print(
            f"{given.folder}: no file could be judged; allowed: {', '.join(SUFFIXES)}",
            file=sys.stderr,
        )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
