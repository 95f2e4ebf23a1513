"""Snapshots of a cyclic schedule: what averaging them gains, at the same number of epochs.

    python -m research.snapshots benchmarks/tabular/digits.yaml

Trains cross-entropy twice for each seed: with one cosine over all epochs, and with several shorter
ones, each of which leaves a snapshot (Huang et al. 2017, "Snapshot ensembles"). Rows are one
network with the single cosine, the last snapshot alone, the mean of the snapshots, and the mean of
the seeds with the single cosine, which costs more trainings. All have temperatures, fitted on the
validation split. Columns are the epochs, the networks of a prediction, the test NLL, and its
difference from one network over the same seeds, with standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from benchmarks.tabular.curves import parser_of_recordings
from benchmarks.tabular.regret import mean_and_error
from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables import metrics as M
from trainables.data.core.base import Dataset
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import model_for
from trainables.posthoc.ensembles import fit_mean

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Predicted:
    """Logits (N, K) of a network on the validation and the test split."""

    validation: Tensor
    test: Tensor


def snapshots(sweep: SweepFile, dataset: Dataset, seed: int, cycles: int) -> list[Predicted]:
    """The network at the end of each of this many cosines, which share the epochs."""
    torch.manual_seed(seed)
    model = model_for(dataset, sweep.model.name, sweep.model.options)
    config = sweep.training.config()
    found = []
    for cycle, part in enumerate(np.array_split(range(config.epochs), cycles)):
        recipe = replace(config, epochs=len(part), schedule="cosine")
        loss = make_loss("cross_entropy", num_classes=dataset.num_classes)
        trainer = Trainer(model, loss, dataset, recipe, seed=1000 * seed + cycle, device=CPU)
        for _ in part:
            trainer.train_epoch()
        logits = (trainer.predict(split)[0] for split in (dataset.validation, dataset.test))
        found.append(Predicted(*logits))
    return found


def nll_of(networks: list[Predicted], dataset: Dataset) -> float:
    """Test NLL of the mean of networks, with temperatures."""
    known, labels = (torch.tensor(split.labels) for split in (dataset.validation, dataset.test))
    ensemble = fit_mean([each.validation for each in networks], known)
    logits = ensemble([each.test.double() for each in networks])
    return M.evaluate(logits, labels, ["nll"])["nll"]


def main() -> None:
    """Train, and print a table."""
    parser = parser_of_recordings(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each way")
    parser.add_argument("--cycles", type=int, default=3, help="snapshots of a training")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    heads = ("data", "predicted by", "epochs", "networks", "test NLL", "minus one network")
    print(f"| {' | '.join(heads)} |\n{'| --- ' * len(heads)}|", flush=True)
    for file in arguments.sweeps:
        sweep = load_sweep(file)
        dataset = load_data(sweep)
        seeds, cycles, epochs = range(arguments.seeds), arguments.cycles, sweep.training.epochs
        single = [snapshots(sweep, dataset, seed, 1) for seed in seeds]
        several = [snapshots(sweep, dataset, seed, cycles) for seed in seeds]
        alone = [nll_of(each, dataset) for each in single]
        rows = (
            ("one network", epochs, 1, alone),
            ("the last snapshot", epochs, 1, [nll_of(each[-1:], dataset) for each in several]),
            ("the snapshots", epochs, cycles, [nll_of(each, dataset) for each in several]),
        )
        for name, cost, networks, losses in rows:
            gain = mean_and_error([a - b for a, b in zip(losses, alone, strict=True)])
            cells = f"{cost} | {networks} | {mean_and_error(losses)} | {gain}"
            print(f"| {sweep.name} | {name} | {cells} |", flush=True)
        together = nll_of([network for each in single for network in each], dataset)
        cells = f"{epochs * len(seeds)} | {len(seeds)} | {together:.4f} | "
        print(f"| {sweep.name} | the seeds | {cells} |", flush=True)


if __name__ == "__main__":
    main()
