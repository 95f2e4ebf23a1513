"""Trials that pause at rungs and are promoted; not part of calsweep, for recorded trials only."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from benchmarks.tabular.curves import Curves
from benchmarks.tabular.replay import keep_nothing
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.stopping import SuccessiveHalving
from sweeps.search.trial_queue import TrialQueue
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.messages import Entry


class Promotions:
    """Successive halving with promotions (Li et al. 2020, algorithm 2).

    A trial pauses at every rung. It continues if its metric is among the best ⌊n/η⌋ of the n trials
    that have reached the rung so far, of its loss or of all losses.

    Args:
        sweep: The sweep; ``scheduler`` and the number of epochs are used.
        across: Whether the trials of all losses compete.
        synchronous: Whether trials continue from a rung only when all have reached it.
    """

    def __init__(self, sweep: SweepFile, across: bool = False, synchronous: bool = False) -> None:
        self.rungs = SuccessiveHalving(Plan(sweep)).rungs
        self._metric = sweep.scheduler.metric
        self._factor = sweep.scheduler.reduction_factor
        self._across = across
        self._far_first = not synchronous
        self._reached: defaultdict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
        self._promoted: set[tuple[int, int]] = set()

    def pauses(self, record: TrialRecord) -> bool:
        """Registers a trial that is at a rung; returns whether it is."""
        epoch = record.epochs
        if epoch not in self.rungs:
            return False
        value = record.outcome.get(self._metric, math.nan)
        found = value if math.isfinite(value) else math.inf
        self._reached[epoch, "" if self._across else record.loss].append((found, record.number))
        return True

    def next(self) -> int | None:
        """The number of the next trial: the furthest, or the least far if synchronous."""
        for (epoch, _), reached in sorted(self._reached.items(), reverse=self._far_first):
            best = sorted(reached)[: len(reached) // self._factor]
            for _, number in best:
                if (epoch, number) not in self._promoted:
                    self._promoted.add((epoch, number))
                    return number
        return None


def replay_pausing(
    sweep: SweepFile,
    curves: Curves,
    num_classes: int,
    seeds: Sequence[int],
    across: bool = False,
    synchronous: bool = False,
) -> list[TrialRecord]:
    """Replays a sweep that pauses trials and continues with the best, one at a time.

    The baseline and the finalists are never paused. The sampler gets a trial when it has finished.
    Trials that are still paused when no trial can be promoted count as stopped.

    Args:
        sweep: The sweep; its losses are among the recorded ones.
        curves: The recorded trials.
        num_classes: Number of classes of the dataset.
        seeds: Recorded seeds that replace those of the sweep.
        across: Whether the trials of all losses compete.
        synchronous: Whether trials continue only when all have reached their rung, instead of as
            soon as one can be promoted.

    Returns:
        The records of its trials.
    """
    in_place = dict(zip(sweep.seeds, seeds, strict=True))
    queue = TrialQueue(Plan(sweep), keep_nothing, num_classes)
    promotions = Promotions(sweep, across, synchronous)
    paused: dict[int, Iterator[Entry]] = {}

    def go_on(record: TrialRecord, entries: Iterator[Entry]) -> None:
        for entry in entries:
            queue.result(record.number, entry)
            if record.role in ("published", "search") and promotions.pauses(record):
                paused[record.number] = entries
                return
        whole = record.epochs >= sweep.training.epochs
        queue.end(record.number, "finished" if whole else "failed")

    while not queue.exhausted:
        number = None if synchronous else promotions.next()
        if number is None and (record := queue.next()) is not None:
            go_on(record, iter(curves.history(record.setting, in_place[record.seed])))
            continue
        number = promotions.next() if number is None else number
        if number is not None:
            if number in paused:  # else it has been stopped, before the budget allowed more trials
                go_on(queue.record(number), paused.pop(number))
            continue
        for left in list(paused):
            queue.end(left, "stopped")
        paused.clear()
    return queue.records
