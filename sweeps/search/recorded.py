"""Settings on recorded datasets, relative to cross-entropy."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from trainables.contract.setting import Setting


@dataclass(frozen=True)
class RecordedSetting:
    """A setting on one dataset: means over its seeds.

    Attributes:
        source: Name of the dataset or sweep.
        log_ratio: log(T / T of cross-entropy); T is the temperature fitted on the validation split.
        error_ratio: Validation error as a share of cross-entropy's, minus 1.
        baseline_error: Cross-entropy's validation error there; None if it is not known.
        weight: How much it counts: the variance of its noise is divided by this.
    """

    source: str
    setting: Setting
    log_ratio: float
    error_ratio: float
    baseline_error: float | None = None
    weight: float = 1.0


@cache
def recorded_settings() -> tuple[RecordedSetting, ...]:
    """All recorded settings that come with calsweep; ``benchmarks.tabular.priors`` writes them.

    They are from small networks on images (digits, Fashion-MNIST, and CIFAR-10 with two networks),
    texts (AG News) and a table (diamonds).
    """
    text = (files(__package__) / "recorded_settings.csv").read_text(encoding="utf-8")
    return tuple(
        RecordedSetting(
            source=row["source"],
            setting=Setting(row["loss"], json.loads(row["hyperparameters"])),
            log_ratio=float(row["log_ratio"]),
            error_ratio=float(row["error_ratio"]),
            baseline_error=float(row["baseline_error"]),
        )
        for row in csv.DictReader(text.splitlines())
    )
