"""Recorded trials: what every setting reported after every epoch, with several seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from optuna.distributions import BaseDistribution, CategoricalDistribution

from sweeps.search.setting import Setting
from sweeps.search.space import SearchSpace
from trainables.report import Entry

_KEYS = ("loss", "hyperparameters", "seed")


class Curves:
    """The entries of recorded trials, by setting and seed.

    Args:
        trials: ``(setting, seed, history)`` of each; a trial that diverged has a short history. A
            setting that lacks seeds which others have is passed over.
        space: Of the sweep that was recorded, by which settings are near each other.
    """

    def __init__(
        self, trials: Iterable[tuple[Setting, int, list[Entry]]], space: SearchSpace
    ) -> None:
        found: dict[Setting, dict[int, list[Entry]]] = {}
        for setting, seed, history in trials:
            found.setdefault(setting, {})[seed] = history
        self.seeds = tuple(sorted(set.union(*map(set, found.values()))))
        self._histories = {
            setting: histories
            for setting, histories in found.items()
            if len(histories) == len(self.seeds)
        }
        self._branches = space.branches

    @property
    def settings(self) -> list[Setting]:
        """All that were recorded."""
        return list(self._histories)

    def history(self, setting: Setting, seed: int) -> list[Entry]:
        """What the recorded setting nearest to this one reported with a seed."""
        return self._histories[self.nearest(setting)][seed]

    def nearest(self, setting: Setting) -> Setting:
        """The recorded setting of the same loss that is nearest, on the scales of its space."""
        if setting in self._histories:
            return setting
        branch = self._branches[setting.loss]
        here = _place(branch, setting)
        return min(
            (each for each in self._histories if each.loss == setting.loss),
            key=lambda each: float(np.square(_place(branch, each) - here).sum()),
        )


def _place(branch: dict[str, BaseDistribution], setting: Setting) -> np.ndarray:
    """A setting as a point; another choice of a categorical is as far as the ends of a range."""
    point: list[float] = []
    for name, distribution in branch.items():
        value = setting.hyperparameters[name]
        if isinstance(distribution, CategoricalDistribution):
            point += [float(value == choice) for choice in distribution.choices]
            continue
        low, high = distribution.low, distribution.high  # type: ignore[attr-defined]
        if distribution.log:  # type: ignore[attr-defined]
            low, high, value = np.log(low), np.log(high), np.log(max(value, low / 10))
        point.append((value - low) / (high - low))
    return np.array(point)


def as_table(setting: Setting, seed: int, history: list[Entry]) -> pa.Table:
    """One trial: a row for each epoch."""
    keys = {
        "loss": setting.loss,
        "hyperparameters": json.dumps(setting.hyperparameters, sort_keys=True),
        "seed": seed,
    }
    return pa.Table.from_pylist([{**keys, **entry} for entry in history])


def read_trials(path: Path) -> Iterable[tuple[Setting, int, list[Entry]]]:
    """The trials of a file that :mod:`benchmarks.tabular.record` wrote."""
    trials: dict[tuple[Any, ...], list[Entry]] = {}
    for row in pq.read_table(path).to_pylist():
        entry = {name: value for name, value in row.items() if name not in _KEYS}
        known = {name: value for name, value in entry.items() if value is not None}
        trials.setdefault(tuple(row[key] for key in _KEYS), []).append(known)
    for (loss, hyperparameters, seed), history in trials.items():
        yield Setting(loss, json.loads(hyperparameters)), seed, history
