"""Replays sweeps on recorded trials, with the queue, study, stopper and ranking of live sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import yaml

from benchmarks.tabular.curves import Curves
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.recorded import RecordedSetting
from sweeps.search.trial_queue import Past, TrialQueue
from sweeps.search.warm_start import Known
from sweeps.sweep_file.loading import dump_sweep, override_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.messages import Entry
from trainables.contract.setting import Setting


@dataclass
class _Running:
    """A running trial.

    Attributes:
        record: Record in the trial queue.
        entries: Entries that are still to be reported.
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
    expected: bool | None = None,
) -> list[TrialRecord]:
    """Replays a sweep.

    A setting has the results of the nearest recorded setting. An epoch takes equally long in all
    trials, and concurrent trials take turns.

    Args:
        sweep: The sweep; its losses are among the recorded ones.
        curves: The recorded trials.
        num_classes: Number of classes of the dataset.
        seeds: Recorded seeds that replace those of the sweep: first the search, then the finalists.
        at_once: Number of concurrent trials.
        initial: The baseline and the initial settings, instead of the published ones.
        recorded: Recorded settings of other datasets, for a guided search. It selects among the
            recorded settings.
        expected: Whether the finalists have the lowest expected objectives or the lowest measured
            ones; None for the rule of the sampler.

    Returns:
        The records of its trials.
    """
    in_place = dict(zip(sweep.seeds, seeds, strict=True))
    plan = Plan(sweep)
    candidates = [s for s in curves.settings if plan.space.branches.get(s.loss)]
    past = Past(known=Known(recorded=recorded, initial=initial, candidates=candidates))
    queue = TrialQueue(plan, keep_nothing, num_classes, past)
    if expected is not None:
        from sweeps.search.guide import Guide

        guide = Guide(plan, past.known, [], num_classes)
        queue.finals.guide = guide if expected else None
    running: list[_Running] = []
    while not queue.exhausted:
        while len(running) < at_once and (record := queue.next()) is not None:
            history = curves.history(record.setting, in_place[record.seed])
            running.append(_Running(record, iter(history)))
        running = [trial for trial in running if _continue(queue, trial)]
    return queue.records


def with_values(sweep: SweepFile, sets: Sequence[str]) -> SweepFile:
    """The sweep with some values replaced, ``KEY=VALUE`` each."""
    return override_sweep(yaml.safe_load(dump_sweep(sweep)), sets) if sets else sweep


def keep_nothing(record: TrialRecord) -> None:
    """Does nothing: replayed trials are not stored."""


def _continue(queue: TrialQueue, trial: _Running) -> bool:
    """Reports one epoch; returns whether the trial continues."""
    number = trial.record.number
    entry = next(trial.entries, None)
    if entry is None:
        queue.end(number, "failed", "diverged")
        return False
    queue.result(number, entry)
    poor = queue.should_prune(number, [entry])
    if entry["epoch"] >= queue.plan.epochs:
        queue.end(number, "finished")
    elif poor:
        queue.end(number, "stopped")
    else:
        return True
    return False
