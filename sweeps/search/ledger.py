"""The driver's book of a sweep: which trials there are, which come next, how each ended."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from sweeps.redaction import redact
from sweeps.search.budget import Budget
from sweeps.search.encoder_plan import EncoderPlan
from sweeps.search.entries import Entry
from sweeps.search.noise import first_at_noise, is_at_noise
from sweeps.search.ranking import Ranking
from sweeps.search.record import State, TrialRecord
from sweeps.search.setting import Setting
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import is_at_chance, make_stopper
from sweeps.search.study import SweepStudy
from sweeps.search.warm_start import EarlierTrial
from sweeps.sweep_file.schema import SweepFile
from trainables.report import NEVER_STOPPED, Role

logger = logging.getLogger("calsweep")
_MAX_DEATHS = 3  # of a trial's process in one epoch; at the next the trial counts as failed
Listener = Callable[[TrialRecord], None]


class Ledger:
    """Keeps every trial of a sweep, has it written down, and says what to run next.

    The order: trials that an interruption cut off, the encoders (where training has two stages),
    the baseline and the published settings, Optuna's suggestions, and when all those have ended
    the finalists with new seeds. A trial waits for the encoder of its seed.

    Args:
        sweep: The sweep.
        save: Writes a record down; returns when that is done.
        num_classes: Number of classes of the dataset.
        records: What an earlier run of this sweep left behind.
        earlier: Trials of earlier sweeps to learn from.
        listeners: Called with a record whenever it changed.
        trained_encoders: Seeds whose encoders lie in the store already.
        on_fault: Called with a message whenever a trial waits, as the storage cannot be written.
        initial: The baseline and what else to try first, instead of the published settings.
    """

    def __init__(
        self,
        sweep: SweepFile,
        save: Callable[[TrialRecord], object],
        num_classes: int,
        records: Sequence[TrialRecord] = (),
        earlier: Sequence[EarlierTrial] = (),
        listeners: tuple[Listener, ...] = (),
        trained_encoders: Iterable[int] = (),
        on_fault: Callable[[str], object] = logger.error,
        initial: Sequence[Setting] | None = None,
    ) -> None:
        self.sweep = sweep
        self.records = list(records)
        # Numbers may be missing where a record was damaged.
        self._by_number = {record.number: record for record in self.records}
        self._save = save
        self._listeners = listeners
        self._on_fault = on_fault
        self._space = SearchSpace(sweep)
        self._study = SweepStudy(sweep, self._space)
        self._study.learn(earlier)
        self._stopper = make_stopper(sweep)
        self._num_classes = num_classes
        if initial is None:
            initial = self._space.initial_settings(num_classes)
        self._initial = list(initial)[: sweep.search.trials]
        self._most_searched = self._space.most_trials(sweep.search.trials, self._initial)
        tried = {record.setting for record in self.records if record.searched}
        self._first = deque(setting for setting in self._initial if setting not in tried)
        self._final: list[tuple[Setting, int]] | None = None
        self._unfinished = deque(r for r in self.records if r.state == "running")
        self._live: set[int] = set()
        self._deaths: Counter[int] = Counter()  # of trials' processes, since their last epoch
        # Kept, as counting over all records at every step of Tune would cost a long sweep dear.
        self._searched = sum(record.searched for record in self.records)
        self._finalists = [record for record in self.records if record.role == "finalist"]
        self._encoders = EncoderPlan(sweep, self.records, trained_encoders)
        for record in self._unfinished:
            record.rests()
        self.budget = Budget(sweep, self.records)
        self.ended_by: str | None = None  # the key of `search` that did
        self._is_at_noise = self._has_come_to_noise()
        self._take_up([record for record in self.records if record.searched])

    def _take_up(self, searched: Sequence[TrialRecord]) -> None:
        """Tell study and stopper of the trials that an earlier run of the sweep left behind."""
        for record in searched:
            self._study.adopt(record.number, record.setting)
            # By the last epoch of a trial that was cut off it may not have been judged: it reports
            # all of them once more, and is judged by what is new then.
            known = record.history[:-1] if record.state == "running" else record.history
            self.judge(record.number, known)
        for record in sorted(searched, key=lambda r: r.ended or 0.0):
            if record.state != "running":
                self._study.observe(record)

    def __deepcopy__(self, memo: object) -> Ledger:
        """Tune copies its searcher and callbacks; there is one book of a sweep all the same."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles them too, for a kind of restoring that is not used here."""
        return {}

    @property
    def planned(self) -> int:
        """How many trials there will be in all, as far as is known by now."""
        begun = len(self.records) - self._searched - len(self._finalists)
        encoders = begun + len(self._encoders.untrained)
        searched = self._most_searched if self._final is None else self._searched
        return encoders + searched + self._planned_finals

    @property
    def epochs_left(self) -> float:
        """How many epochs there are still to be trained, besides those of encoders.

        Trials of the search, but for the baseline, are expected to run as long as those that ended.
        """
        whole = self.sweep.training.epochs
        ended = [
            record.epochs
            for record in self.records
            if record.state != "running" and record.role not in NEVER_STOPPED
        ]
        usual = fmean(ended) / whole if ended else 1.0
        left = sum(
            (1.0 if record.role in NEVER_STOPPED else usual) * (whole - record.epochs)
            for record in self.records
            if record.state == "running" and record.role != "encoder"
        )
        finals = self._planned_finals - len(self._finalists)
        others = max(0, self.planned - len(self.records) - finals)
        spent, most = self.budget.spent.get("max_epochs", (0, math.inf))
        return min(left + whole * (finals + usual * others), max(0, most - spent))

    @property
    def _planned_finals(self) -> int:
        if self._final is not None:
            return len(self._finals())
        return self.sweep.selection.most_trials(self._most_searched)

    def epochs(self, record: TrialRecord) -> int:
        """How many epochs a trial has that runs to its end."""
        encoder = self.sweep.encoder if record.role == "encoder" else None
        return (encoder or self.sweep).training.epochs

    @property
    def outcome_epochs(self) -> tuple[int, ...]:
        """Epochs after which a trial may end: where it may be stopped, and the last one."""
        return (*self._stopper.rungs, self.sweep.training.epochs)

    @property
    def live(self) -> int:
        """How many trials are running."""
        return len(self._live)

    def next(self) -> TrialRecord | None:
        """Begin (or go on with) a trial; None where there is none now: see :attr:`exhausted`."""
        if self.budget.used_up:
            return None
        if self._unfinished:
            record = self._unfinished.popleft()
            self._goes(record)
            return record
        if self._encoders.untrained:
            return self._begin(
                "encoder", self._encoders.setting, self._encoders.untrained.popleft()
            )
        seed = self.sweep.search.seed
        if seed not in self._encoders.ready:
            return None
        if not self._search_is_over:
            if not self._first:
                return self._begin("search", self._study.suggest(self._next_number), seed)
            setting = self._first.popleft()
            self._study.adopt(self._next_number, setting)
            role: Role = "baseline" if setting == self._initial[0] else "published"
            return self._begin(role, setting, seed)
        if self._search_is_running:
            return None
        remaining = self._remaining_finals()
        if not remaining or remaining[0][1] not in self._encoders.ready:
            return None
        return self._begin("finalist", *remaining[0])

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to be done, or no budget to do it with."""
        return self.budget.used_up is not None or self._complete

    @property
    def cut_short(self) -> bool:
        """Whether the sweep's hours are spent, and trials left to go on with or to begin."""
        return self.budget.used_up is not None and not self._complete

    @property
    def _complete(self) -> bool:
        """Whether no trial is running (which may have to be tried again) and none will come."""
        if self._live or self._unfinished or self._encoders.untrained:
            return False
        if self.sweep.search.seed in self._encoders.failed:
            return True
        return self._search_is_over and not self._remaining_finals()

    def result(self, number: int, metrics: Entry) -> None:
        """Take in the metrics of an epoch; one that is known already changes nothing."""
        record = self._by_number[number]
        if record.add(metrics):
            del self._deaths[number]
            self._notify(record)

    def judge(self, number: int, entries: Iterable[Entry]) -> bool:
        """Whether a trial is to be stopped after these epochs.

        Never the baseline or a finalist, nor at the first rung one that is at chance there.
        """
        record = self._by_number[number]
        if not record.searched:
            return False
        poor = [
            self._stopper.judge(record, entry)
            and not (
                entry["epoch"] <= self._stopper.rungs[0] and is_at_chance(entry, self._num_classes)
            )
            for entry in entries
        ]
        return any(poor) and record.role not in NEVER_STOPPED

    def waiting(self, number: int, reason: str) -> None:
        """A trial cannot write what it has; it tries again and again."""
        self._on_fault(f"trial {number} waits: {reason}")

    @property
    def progress(self) -> int:
        """A number that rises whenever an epoch is done or a trial begins or ends."""
        ended = sum(record.state != "running" for record in self.records)
        return len(self.records) + ended + sum(record.epochs for record in self.records)

    def interrupted(self) -> None:
        """Nothing runs any more, by no trial's fault: those that ran come again."""
        stopped = [self._by_number[number] for number in sorted(self._live)]
        for record in stopped:
            record.rests(time.time())
        self._unfinished.extend(stopped)
        self._live.clear()

    def died(self, number: int, at_fault: bool = True) -> None:
        """A trial's process died: the trial comes again, to go on from its checkpoint.

        On machines that come and go that may be often. It is the trial's fault, and the trial
        failed, if it gets no further in between.

        Args:
            number: Of the trial.
            at_fault: Whether it may be.
        """
        record = self._by_number[number]
        self._deaths[number] += at_fault
        if self._deaths[number] > _MAX_DEATHS:
            deaths = f"its process died {self._deaths[number]} times in epoch {record.epochs + 1}"
            self.end(number, "failed", f"{deaths}, see driver.log")  # where Tune tells of each
        else:
            record.rests(time.time())
            self._live.discard(number)
            self._unfinished.append(record)

    def end(self, number: int, state: State, reason: str | None = None) -> None:
        """A trial ended."""
        record = self._by_number[number]
        record.state, record.ended = state, time.time()
        record.rests(record.ended)
        record.reason = redact(reason) if reason else reason  # it is kept, and shown in many places
        self._live.discard(number)
        self._save(record)
        self.budget.ends(record)
        if record.role == "encoder":
            self._encoders.ended(record)
        elif record.searched:
            self._study.observe(record)
            if record.role == "baseline" or is_at_noise(record, self.sweep.rule):
                self._is_at_noise = self._has_come_to_noise()
        self._notify(record)

    def _has_come_to_noise(self) -> bool:
        """Whether ``search.stop_at_noise`` ends the search."""
        stops = self.sweep.search.stop_at_noise
        return stops and first_at_noise(self.records, self.sweep.rule) is not None

    @property
    def _next_number(self) -> int:
        return self.records[-1].number + 1 if self.records else 0

    def record(self, number: int) -> TrialRecord:
        """The record of a trial."""
        return self._by_number[number]

    def _begin(self, role: Role, setting: Setting, seed: int) -> TrialRecord:
        record = TrialRecord(
            number=self._next_number,
            role=role,
            loss=setting.loss,
            hyperparameters=setting.hyperparameters,
            seed=seed,
            started=time.time(),
        )
        self._goes(record)
        self.records.append(record)
        self._by_number[record.number] = record
        self._searched += record.searched
        if role == "finalist":
            self._finalists.append(record)
        self._notify(record)
        return record

    def _goes(self, record: TrialRecord) -> None:
        record.goes(time.time())
        self._save(record)
        self._live.add(record.number)
        self.budget.begins(record, self.live)

    @property
    def _search_is_over(self) -> bool:
        """Whether no trial of the search may begin now; for good once the finals are settled."""
        if self._final is not None or self._finalists:
            return True
        enough = self._searched >= self.sweep.search.trials or self._study.exhausted
        if self._is_at_noise or (enough and not self._first):
            return True
        return self._lacking is not None

    @property
    def _lacking(self) -> str | None:
        """The budget that has no room for one more trial of the search; the baseline always has."""
        if not self._searched:
            return None
        return self.budget.lacking(self.sweep.selection.most_trials(self._searched + 1))

    @property
    def _search_is_running(self) -> bool:
        return any(self._by_number[number].searched for number in self._live)

    def _remaining_finals(self) -> list[tuple[Setting, int]]:
        begun = {(record.setting, record.seed) for record in self._finalists}
        return [final for final in self._finals() if final not in begun]

    def _finals(self) -> list[tuple[Setting, int]]:
        """The finalists' trials: every setting with every new seed, known once the search ended."""
        if self._final is None:
            searched = [r for r in self.records if r.searched]
            again = Ranking(searched, self.sweep.rule).finalists(self._affordable(searched))
            self._final = [(c.setting, seed) for seed in self.sweep.seeds[1:] for c in again]
            if self._searched < self._most_searched:
                self.ended_by = "stop_at_noise" if self._is_at_noise else self._lacking
        return [final for final in self._final if final[1] not in self._encoders.failed]

    def _affordable(self, searched: Sequence[TrialRecord]) -> int:
        """How many finalists the budget of epochs has room for, besides the baseline."""
        selection, most = self.sweep.selection, self.sweep.search.max_epochs
        if most is None or not selection.seeds:
            return selection.finalists if selection.seeds else 0
        left = most - sum(record.epochs for record in searched)
        settings = left // (selection.seeds * self.sweep.training.epochs)
        return min(selection.finalists, max(0, settings - 1))

    def _notify(self, record: TrialRecord) -> None:
        for listener in self._listeners:
            listener(record)
