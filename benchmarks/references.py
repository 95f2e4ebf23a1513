"""Reference models beside recorded networks, on the same splits and with the same chosen scaling.

    python -m benchmarks.references ../recordings benchmarks/tabular/wide/*.yaml          # minutes
    python -m benchmarks.references ../recordings benchmarks/tabular/wide/*.yaml --false

The networks are the seeds of cross-entropy that :mod:`benchmarks.tabular.wide` recorded. The table
has the test NLL: of the networks, a mean; of each reference model, with the number of seeds that
the best one by validation NLL is shown to beat, and that are shown to beat it. ``--false`` repeats
this verdict where nothing differs: of the best reference and a network, either is called the
reference for each sample, at random, on random parts of the test split.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow.parquet as pq
import torch

from sweeps.evidence.comparison import compare_handed_out
from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import load_sweep
from trainables.data.core.base import Dataset
from trainables.files.rows import Rows
from trainables.posthoc.chosen import fit_scaling
from trainables.trials.reference_models import reference_models

SIZES = (300, 1000, 3000)
DRAWS = 400


@dataclass(frozen=True)
class HandedOut:
    """Predictions on the test split with the chosen scaling, and the NLL on the validation split.

    The latter is cross-fitted.
    """

    test: Rows
    validation_nll: float

    @property
    def nll(self) -> float:
        """On the test split."""
        return _nll(*self.test.tensors())


def handed_out(validation: Rows, test: Rows) -> HandedOut:
    """A classifier with the scaling that its predictions on the validation split choose."""
    logits, labels = validation.tensors()
    scaling, crossed = fit_scaling(logits.double(), labels)
    found = scaling(test.tensors()[0].double()).log_softmax(dim=1).float().numpy()
    return HandedOut(Rows(found, test.labels), _nll(crossed, labels))


def _nll(logits: torch.Tensor, labels: torch.Tensor) -> float:
    return float(torch.nn.functional.cross_entropy(logits.double(), labels))


def networks_of(folder: Path, dataset: Dataset) -> list[HandedOut]:
    """The recorded seeds of cross-entropy after their last epoch."""
    found = []
    for path in sorted(folder.glob("0000-*.logits")):
        table = pq.read_table(path)
        rows = []
        for split in ("validation", "test"):
            labels = np.array(getattr(dataset, split).labels)
            logits = np.array(table[split][-1].values).reshape(len(labels), -1)
            rows.append(Rows(logits.astype(np.float32), labels))
        found.append(handed_out(*rows))
    return found


def _share_of_false_verdicts(ours: Rows, theirs: Rows, size: int) -> tuple[int, int]:
    """How often either is shown to be better on a part of this size, and the number of draws."""
    random = np.random.default_rng(size)
    false = 0
    for _ in range(DRAWS):
        rows = random.choice(len(ours.labels), size, replace=False)
        swapped = (random.random(size) < 0.5)[:, None]
        pair = ours.logits[rows], theirs.logits[rows]
        labels = ours.labels[rows]
        first, second = (Rows(np.where(swapped, a, b), labels) for a, b in (pair, pair[::-1]))
        false += compare_handed_out(first, second).verdict == "supported"
    return false, DRAWS


def main() -> None:
    """Print a line per dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("sweeps", nargs="+", type=Path, metavar="FILE", help="sweep files")
    parser.add_argument("--false", action="store_true", help="verdicts where nothing differs")
    arguments = parser.parse_args()
    for file in arguments.sweeps:
        dataset = load_data(load_sweep(str(file)))
        networks = networks_of(arguments.recordings / file.stem, dataset)
        found = {r.name: handed_out(r.validation, r.test) for r in reference_models(dataset)}
        best = min(found.values(), key=lambda each: each.validation_nll)
        if arguments.false:
            for size in (each for each in SIZES if each <= len(dataset.test)):
                false, draws = _share_of_false_verdicts(best.test, networks[0].test, size)
                print(f"{file.stem} | {size:,} | {false} of {draws}", flush=True)
            continue
        verdicts = [compare_handed_out(best.test, each.test).verdict for each in networks]
        columns = [f"{name} {each.nll:.4f}" for name, each in found.items()]
        columns += [f"{verdicts.count(v)} {v}" for v in ("supported", "worse")]
        nll = fmean(each.nll for each in networks)
        print(f"{file.stem} | networks {nll:.4f} | {' | '.join(columns)}", flush=True)


if __name__ == "__main__":
    main()
