"""Sweeps on recorded trials: a live sweep's queue, study, stopper and ranking, no training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from benchmarks.tabular.curves import Curves
from sweeps.search.record import TrialRecord
from sweeps.search.recorded import RecordedSetting
from sweeps.search.space import SearchSpace
from sweeps.search.trial_queue import Past, TrialQueue
from sweeps.sweep_file.loading import dump_sweep, override_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.report import Entry
from trainables.contract.setting import Setting


@dataclass
class _Running:
    """A trial under way.

    Attributes:
        record: Of the queue.
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
    recorded: Sequence[RecordedSetting] = (),
) -> list[TrialRecord]:
    """What a sweep would have reached.

    A setting reports what the recorded one nearest to it reported. All trials take equally long for
    an epoch, and those that run concurrently take turns.

    Args:
        sweep: The sweep; its losses are among the recorded ones.
        curves: The recorded trials.
        num_classes: Number of classes of the dataset.
        seeds: Recorded seeds, in place of the sweep's own: first the search's, then the finalists'.
        at_once: How many trials run concurrently.
        initial: The baseline and the settings to begin with, instead of the published ones.
        recorded: What a guided search starts from. It chooses among the recorded settings.

    Returns:
        The records of its trials.
    """
    in_place = dict(zip(sweep.seeds, seeds, strict=True))
    candidates = [s for s in curves.settings if SearchSpace(sweep).branches.get(s.loss)]
    past = Past(recorded=recorded)
    queue = TrialQueue(
        sweep, keep_nothing, num_classes, past, initial=initial, candidates=candidates
    )
    running: list[_Running] = []
    while not queue.exhausted:
        while len(running) < at_once and (record := queue.next()) is not None:
            history = curves.history(record.setting, in_place[record.seed])
            running.append(_Running(record, iter(history)))
        running = [trial for trial in running if _continue(queue, trial)]
    return queue.records


def with_values(sweep: SweepFile, sets: Sequence[str]) -> SweepFile:
    """A sweep with some values replaced, ``KEY=VALUE`` each."""
    return override_sweep(yaml.safe_load(dump_sweep(sweep)), sets) if sets else sweep


def keep_nothing(record: TrialRecord) -> None:
    """Replayed trials are written nowhere."""


def _continue(queue: TrialQueue, trial: _Running) -> bool:
    """Report one epoch; whether the trial has more to come."""
    number = trial.record.number
    entry = next(trial.entries, None)
    if entry is None:
        queue.end(number, "failed", "diverged")
        return False
    queue.result(number, entry)
    poor = queue.should_prune(number, [entry])
    if entry["epoch"] >= queue.sweep.training.epochs:
        queue.end(number, "finished")
    elif poor:
        queue.end(number, "stopped")
    else:
        return True
    return False
