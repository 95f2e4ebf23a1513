"""Recorded trials: metrics of every setting after every epoch, with several seeds."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from optuna.distributions import CategoricalDistribution

from search_spaces import Distribution
from sweeps.search.space import SearchSpace
from trainables.contract.messages import Entry
from trainables.contract.setting import BASELINE, Setting

_KEYS = ("loss", "hyperparameters", "seed")
Trials = Iterable[tuple[Setting, int, list[Entry]]]


def parser_of_recordings(description: str) -> argparse.ArgumentParser:
    """A parser of a command's options, whose ``sweeps`` are sweep files with recorded trials."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "sweeps", nargs="+", metavar="FILE", help="sweep files with recorded trials beside them"
    )
    return parser


class Curves:
    """The entries of recorded trials, by setting and seed.

    Args:
        trials: ``(setting, seed, history)`` of each trial; a trial that diverged has a short
            history. A setting that lacks seeds of others is never the nearest to another setting.
        space: The search space of the recorded sweep, which defines distances between settings.
    """

    def __init__(self, trials: Trials, space: SearchSpace) -> None:
        found: dict[Setting, dict[int, list[Entry]]] = {}
        for setting, seed, history in trials:
            found.setdefault(setting, {})[seed] = history
        self.seeds = tuple(sorted(set.union(*map(set, found.values()))))
        self._histories = {
            setting: histories
            for setting, histories in found.items()
            if len(histories) == len(self.seeds)
        }
        self._all = found
        self._branches = space.branches
        self._places: dict[str, tuple[list[Setting], np.ndarray]] = {}

    @property
    def settings(self) -> list[Setting]:
        """All recorded settings."""
        return list(self._histories)

    def history(self, setting: Setting, seed: int) -> list[Entry]:
        """The history of the nearest recorded setting with this seed."""
        own = self._all.get(setting, {})
        return own[seed] if seed in own else self._histories[self.nearest(setting)][seed]

    def nearest(self, setting: Setting) -> Setting:
        """The nearest recorded setting of the same loss, on the scales of the search space."""
        if setting in self._histories:
            return setting
        branch = self._branches[setting.loss]
        if setting.loss not in self._places:
            known = [each for each in self._histories if each.loss == setting.loss]
            places = np.array([_place(branch, each) for each in known])
            self._places[setting.loss] = known, places
        known, places = self._places[setting.loss]
        return known[np.square(places - _place(branch, setting)).sum(axis=1).argmin()]


def _place(branch: dict[str, Distribution], setting: Setting) -> np.ndarray:
    """A setting as a point; different categories are as far apart as the ends of a range."""
    point: list[float] = []
    for name, distribution in branch.items():
        value = setting.hyperparameters[name]
        if isinstance(distribution, CategoricalDistribution):
            point += [float(value == choice) for choice in distribution.choices]
            continue
        low, high = distribution.low, distribution.high
        if distribution.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low / 10))
        point.append((value - low) / (high - low))
    return np.array(point)


def of_common_seeds(trials: Sequence[tuple[Setting, int, list[Entry]]]) -> Trials:
    """The settings with all seeds that most settings have, two at least, and these seeds.

    All trials, if these are all seeds.
    """
    seeds: dict[Setting, set[int]] = {}
    for setting, seed, _ in trials:
        seeds.setdefault(setting, set()).add(seed)
    number = Counter(seed for own in seeds.values() for seed in own)
    common = {seed for seed, count in number.items() if 2 * count > len(seeds)}
    common |= {seed for seed, _ in number.most_common(2)}
    if common == set(number):
        return trials
    return [each for each in trials if common <= seeds[each[0]] and each[1] in common]


def with_degenerate(trials: Trials, share: float, num_classes: int, seed: int) -> Trials:
    """Recorded trials with a share of settings replaced by constant classifiers.

    A constant classifier whose confidence equals the frequency of its class has an ECE of zero. The
    baseline and the lengths of the trials are not changed.

    Args:
        trials: The recorded trials.
        share: Share of the settings to replace.
        num_classes: Number of classes, all equally frequent.
        seed: Seed of the selection of settings.
    """
    known = list(trials)
    draw = np.random.default_rng(seed)
    chosen = {s for s in dict.fromkeys(s for s, _, _ in known) if draw.random() < share}
    chance = 1 - 1 / num_classes
    values = {"error": chance, "nll": math.log(num_classes), "brier": chance}
    for setting, number, history in known:
        if setting != BASELINE and setting in chosen:
            constant = [
                {name: _constant(name, value, values) for name, value in entry.items()}
                for entry in history
            ]
            yield setting, number, constant
        else:
            yield setting, number, history


def with_error_intervals(trials: Trials, samples: int) -> Trials:
    """Recorded trials with the 95% interval of the validation error, which live trials report.

    Args:
        trials: The recorded trials.
        samples: Number of validation samples.
    """
    for setting, seed, history in trials:
        yield setting, seed, [{**entry, **_error_interval(entry, samples)} for entry in history]


def _error_interval(entry: Entry, samples: int) -> dict[str, float]:
    error = entry["val_error"]
    half = 1.96 * math.sqrt(max(error * (1 - error), 1 / samples) / samples)
    return {"val_error_low": max(0.0, error - half), "val_error_high": min(1.0, error + half)}


def _constant(name: str, value: float, values: dict[str, float]) -> float:
    """The value of a metric for a constant classifier; other entries are unchanged."""
    split, _, metric = name.partition("_")
    if split not in ("val", "test"):
        return value
    return values.get(metric.removesuffix("_scaled"), 0.0)


def as_table(setting: Setting, seed: int, history: list[Entry]) -> pa.Table:
    """One trial as a table, one row per epoch."""
    keys = {
        "loss": setting.loss,
        "hyperparameters": json.dumps(setting.hyperparameters, sort_keys=True),
        "seed": seed,
    }
    return pa.Table.from_pylist([{**keys, **entry} for entry in history])


def read_trials(path: Path) -> Trials:
    """The trials of a file that :mod:`benchmarks.tabular.record` wrote."""
    trials: dict[tuple[Any, ...], list[Entry]] = {}
    for row in pq.read_table(path).to_pylist():
        entry = {name: value for name, value in row.items() if name not in _KEYS}
        known = {name: value for name, value in entry.items() if value is not None}
        trials.setdefault(tuple(row[key] for key in _KEYS), []).append(known)
    for (loss, hyperparameters, seed), history in trials.items():
        yield Setting(loss, json.loads(hyperparameters)), seed, history
