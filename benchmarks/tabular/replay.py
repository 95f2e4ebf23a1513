"""Sweeps on recorded trials: a live sweep's ledger, study, stopper and ranking, no training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from benchmarks.tabular.curves import Curves
from sweeps.search.ledger import Ledger
from sweeps.search.record import TrialRecord
from sweeps.search.setting import Setting
from sweeps.sweep_file.loading import dump_sweep, override_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.report import Entry


@dataclass
class _Running:
    """A trial under way.

    Attributes:
        record: Of the ledger.
        entries: What it has yet to report.
    """

    record: TrialRecord
    entries: Iterator[Entry]


def replay(
    sweep: SweepFile,
    curves: Curves,
    num_classes: int,
    seeds: Sequence[int],
    at_once: int = 1,
    initial: Sequence[Setting] | None = None,
) -> list[TrialRecord]:
    """What a sweep would have come to.

    A setting reports what the recorded one nearest to it reported. All trials take equally long for
    an epoch, and those that run side by side take turns.

    Args:
        sweep: The sweep; its losses are among the recorded ones.
        curves: The recorded trials.
        num_classes: Number of classes of the dataset.
        seeds: Recorded seeds, in place of the sweep's own: first the search's, then the finalists'.
        at_once: How many trials run side by side.
        initial: The baseline and the settings to begin with, instead of the published ones.

    Returns:
        The records of its trials.
    """
    in_place = dict(zip(sweep.seeds, seeds, strict=True))
    ledger = Ledger(sweep, keep_nothing, num_classes, initial=initial)
    running: list[_Running] = []
    while not ledger.exhausted:
        while len(running) < at_once and (record := ledger.next()) is not None:
            history = curves.history(record.setting, in_place[record.seed])
            running.append(_Running(record, iter(history)))
        running = [trial for trial in running if _goes_on(ledger, trial)]
    return ledger.records


def with_values(sweep: SweepFile, sets: Sequence[str]) -> SweepFile:
    """A sweep with some values replaced, ``KEY=VALUE`` each."""
    return override_sweep(yaml.safe_load(dump_sweep(sweep)), sets) if sets else sweep


def keep_nothing(record: TrialRecord) -> None:
    """Replayed trials are written nowhere."""


def _goes_on(ledger: Ledger, trial: _Running) -> bool:
    """Report one epoch; whether the trial has more to come."""
    number = trial.record.number
    entry = next(trial.entries, None)
    if entry is None:
        ledger.end(number, "failed", "diverged")
        return False
    ledger.result(number, entry)
    poor = ledger.judge(number, [entry])
    if entry["epoch"] >= ledger.sweep.training.epochs:
        ledger.end(number, "finished")
    elif poor:
        ledger.end(number, "stopped")
    else:
        return True
    return False
