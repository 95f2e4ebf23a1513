"""Structured scaling of recorded predictions, against a temperature.

    python -m benchmarks.tabular.structured benchmarks/tabular/{digits,fashion_mnist,cifar10}.yaml

Each method is fitted on the validation split of each recorded setting. NLL and ECE are means over
settings on the test split. *Better* and *worse* count the settings whose test NLL differs from that
with a temperature, by the paired 95 % interval over samples of each setting.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from benchmarks.tabular.posthoc import LEVEL
from benchmarks.tabular.predictions import SPLITS, Predicted, read_predicted
from trainables import metrics as M
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc import make_posthoc

TEMPERATURE = "temperature"
METHODS = (TEMPERATURE, "structured_vector", "structured_matrix", "selected")


def scaled(predicted: Predicted) -> dict[str, tuple[Tensor, float]]:
    """Of each method, the test log losses (N,) and the test ECE."""
    validation, test = (
        (torch.from_numpy(predicted.logits[split]), torch.from_numpy(predicted.labels[split]))
        for split in SPLITS
    )
    found = {}
    for name in METHODS:
        after = make_posthoc(name).fit(*validation)(test[0])
        ece = M.expected_calibration_error(after.double().softmax(dim=1), test[1])
        found[name] = log_losses_of_logits(after, test[1]), ece
    return found


def sign(losses: Tensor, others: Tensor) -> int:
    """-1 if the mean is significantly lower than another's, 1 if higher, else 0."""
    difference = losses - others
    half = LEVEL * difference.std() / len(difference) ** 0.5
    return int(difference.mean().sign()) if difference.mean().abs() > half else 0


def main() -> None:
    """Print one row for each dataset and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweeps", nargs="+", type=Path, metavar="FILE", help="recorded sweep files")
    parser.add_argument("--settings", type=int, help="at most, of each dataset")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| dataset | settings | samples | method | NLL | ECE | better | worse |")
    print("| --- " * 8 + "|", flush=True)
    for file in arguments.sweeps:
        recorded = list(read_predicted(file.with_suffix(".predictions.parquet")))
        recorded = recorded[: arguments.settings]
        found = [scaled(each) for each in recorded]
        for name in METHODS:
            signs = [sign(each[name][0], each[TEMPERATURE][0]) for each in found]
            cells = (
                file.stem,
                str(len(found)),
                f"{len(recorded[0].labels[SPLITS[0]]):,}",
                name,
                f"{fmean(float(each[name][0].mean()) for each in found):.4f}",
                f"{fmean(each[name][1] for each in found):.4f}",
                str(signs.count(-1)),
                str(signs.count(1)),
            )
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
