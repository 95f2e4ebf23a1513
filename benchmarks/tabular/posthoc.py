"""The value of a loss after post-hoc calibration.

    python -m benchmarks.tabular.posthoc benchmarks/tabular/*.yaml

The recorded predictions have one seed per setting. Every post-hoc method is fitted on the
validation split; ECE and Brier score are reported on the test split. *Chosen* is the setting with
the lowest cross-fitted validation ECE after the method, within the guard. *Better* and *worse*
count the settings whose Brier score differs from that of cross-entropy after the same method, by
the paired 95 % interval over samples of each setting. By chance, one setting in forty differs in
each direction. There is no log-likelihood, because some methods output probabilities of 0.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.tabular.isotonic import IsotonicCalibration
from benchmarks.tabular.predictions import SPLITS, Predicted, read_predicted
from sweeps.messages.formatting import format_hyperparameters
from sweeps.sweep_file.loading import load_sweep
from trainables import metrics as M
from trainables.contract.setting import BASELINE, Setting
from trainables.metrics.proper_scores import squared_errors
from trainables.posthoc import (
    MetaCalibration,
    PostHoc,
    available_posthoc,
    cross_fitted,
    make_posthoc,
)

METHODS: dict[str, Callable[[], PostHoc]] = {
    **{name: partial(make_posthoc, name) for name in available_posthoc()},
    IsotonicCalibration.name: IsotonicCalibration,
}
del METHODS[MetaCalibration.name]  # replaces some predictions
LEVEL = 1.96  # half-width of a 95 % interval, in standard errors


@dataclass(frozen=True)
class Judged:
    """One setting after one method.

    Attributes:
        setting: The setting.
        validation_ece: Cross-fitted validation ECE.
        validation_error: Cross-fitted validation error.
        ece: Test ECE.
        squared_errors: Squared error of each test sample, whose mean is the Brier score, (N,).
    """

    setting: Setting
    validation_ece: float
    validation_error: float
    ece: float
    squared_errors: Tensor


def judge(predicted: Predicted, make: Callable[[], PostHoc] | None) -> Judged:
    """Calibrate the predictions of a setting with a post-hoc method, or with none."""
    validation, test = (
        (torch.from_numpy(predicted.logits[split]), torch.from_numpy(predicted.labels[split]))
        for split in SPLITS
    )
    crossed, after = validation[0], test[0]
    if make is not None:
        crossed, after = cross_fitted(*validation, make), make().fit(*validation)(test[0])
    probs, crossed_probs = (logits.double().softmax(dim=1) for logits in (after, crossed))
    return Judged(
        predicted.setting,
        M.expected_calibration_error(crossed_probs, validation[1]),
        M.error_rate(crossed_probs, validation[1]),
        M.expected_calibration_error(probs, test[1]),
        squared_errors(probs, test[1]),
    )


def choose(judged: list[Judged], guard: float) -> Judged:
    """The setting with the lowest validation ECE whose validation error is within the guard."""
    limit = baseline(judged).validation_error + guard
    feasible = [each for each in judged if each.validation_error <= limit]
    return min(feasible, key=lambda each: each.validation_ece)


def baseline(judged: list[Judged]) -> Judged:
    """Cross-entropy."""
    return next(each for each in judged if each.setting == BASELINE)


def differs(judged: Judged, other: Judged) -> int:
    """-1 if the Brier score is significantly lower than another's, 1 if higher, else 0."""
    difference = judged.squared_errors - other.squared_errors
    error = float(difference.std()) / math.sqrt(len(difference))
    mean = float(difference.mean())
    return 0 if abs(mean) <= LEVEL * error else int(math.copysign(1, mean))


def main() -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "sweeps",
        nargs="+",
        metavar="FILE",
        help="sweep files with recorded predictions beside them",
    )
    torch.set_num_threads(1)
    for file in parser.parse_args().sweeps:
        predictions = list(read_predicted(Path(file).with_suffix(".predictions.parquet")))
        guard = load_sweep(file).search.guard
        print(f"\n{Path(file).stem}: {len(predictions)} settings, one seed each\n")
        print("| method | cross-entropy: ECE | Brier | chosen | ECE | Brier | better | worse |")
        print("| --- " * 8 + "|", flush=True)
        for method in (None, *METHODS):
            make = METHODS[method] if method else None
            judged = [judge(each, make) for each in predictions]
            print(_row(method or "nothing", judged, guard), flush=True)


def _row(method: str, judged: list[Judged], guard: float) -> str:
    plain, chosen = baseline(judged), choose(judged, guard)
    signs = [differs(each, plain) for each in judged]
    words = f"{chosen.setting.loss} {format_hyperparameters(chosen.setting.hyperparameters)}"
    cells = (
        method,
        f"{plain.ece:.4f}",
        f"{plain.squared_errors.mean():.4f}",
        words.strip(),
        f"{chosen.ece:.4f}",
        f"{chosen.squared_errors.mean():.4f}",
        str(signs.count(-1)),
        str(signs.count(1)),
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
