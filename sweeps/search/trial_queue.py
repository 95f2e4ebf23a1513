"""The queue of a sweep's trials: selects the next one and records how each ended."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from sweeps.messages.redaction import redact
from sweeps.search import clock
from sweeps.search.budget import Budget
from sweeps.search.encoder_plan import EncoderPlan
from sweeps.search.finalist_plan import FinalistPlan, TakeLook
from sweeps.search.plan import Plan
from sweeps.search.record import Entry, State, TrialRecord, may_be_dropped, may_be_retried
from sweeps.search.stopping import Pruner
from sweeps.search.suggestions import Suggestions
from sweeps.search.warm_start import Known
from sweeps.sweep_file.sections.search import SearchSection
from trainables.contract.messages import Role, TrialConfig
from trainables.contract.setting import Setting

if TYPE_CHECKING:
    from sweeps.search.guide import Proposal

logger = logging.getLogger("calsweep")
_MAX_DEATHS = 3  # deaths of a trial's process within one epoch; one more fails the trial
Listener = Callable[[TrialRecord], None]
End = Literal["finished", "cut short", "failed", "in vain"]
"""How a sweep ended: all trials have ended, or its hours were used up before that; ``failed``
without a trial that did not fail, ``in vain`` without one that finished."""


@dataclass(frozen=True)
class Past:
    """Trials and encoders that existed before this run of a sweep.

    Attributes:
        records: Trials of an earlier run of this sweep.
        known: What the search starts from.
        trained_encoders: Seeds whose encoders are in the store.
        pilot: The trial before the sweep, whose time and epochs count.
    """

    records: Sequence[TrialRecord] = ()
    known: Known = field(default_factory=Known)
    trained_encoders: Iterable[int] = ()
    pilot: Sequence[TrialRecord] = ()


NOTHING_YET: Final = Past()


class TrialQueue:
    """Keeps the record of every trial, saves each change, and decides what runs next.

    The order is: interrupted trials, the encoders (in two-stage training), the baseline and the
    published settings, Optuna's suggestions, and after all of these the finalists with fresh seeds.
    A trial waits for the encoder of its seed. :meth:`advance` decides what follows the search; the
    properties only report.

    Args:
        save: Saves a record; returns when it is saved.
        take_look: Whether further seeds may still change the verdict: see :class:`FinalistPlan`.

    Attributes:
        listeners: Called with a record whenever it has changed. They only observe: one that raises
            is not called again, and the sweep continues.
        suggestions: The settings of the search.
        finals: The plan of the finalists.
        code: The digest of the code that trials start with now.
        code_now: Finds it again, because it may have been fixed before a trial is retried.
        generation: How often it was found again; older processes may have imported older code.
    """

    def __init__(
        self,
        plan: Plan,
        save: Callable[[TrialRecord], object],
        num_classes: int,
        past: Past = NOTHING_YET,
        take_look: TakeLook = lambda ranking: "open",
    ) -> None:
        self.plan = plan
        self.records = list(past.records)
        # Numbers may be missing because a record was damaged.
        self._by_number = {record.number: record for record in self.records}
        self.code = ""
        self.code_now: Callable[[], str] = str
        self.generation = 0
        self._save = save
        self.listeners: list[Listener] = []
        self._pruner = Pruner(plan, num_classes)
        self._unfinished = deque(r for r in self.records if r.state == "running")
        self._live: set[int] = set()
        self._deaths: Counter[int] = Counter()  # of trials' processes since their last epoch
        self._failures = 0  # in a row, in this run of the sweep
        self._short_of_memory: set[int] = set()  # trials that exceeded their share of a GPU
        self._searched = [record for record in self.records if record.searched]
        self.suggestions = Suggestions(plan, num_classes, past.known, self._searched)
        self._encoders = EncoderPlan(plan, self.records, past.trained_encoders)
        for record in self._unfinished:
            record.cut_off(record.history, clock.time())
        self.budget = Budget(plan, [*past.pilot, *self.records])
        self.finals = FinalistPlan(plan, self.records, self.budget, self._encoders, take_look)
        self.finals.guide = self.suggestions.guide
        self.ended_by: str | None = None  # the key of `search` that ended the search
        for record in self._searched:
            # The last epoch of an interrupted trial may not have been judged. It is judged when the
            # trial reports all of its epochs again.
            known = record.history[:-1] if record.state == "running" else record.history
            self._pruner.should_prune(record, known)
        self.advance()

    @property
    def planned(self) -> int:
        """The total number of trials, as far as known; further seeds are added later."""
        encoders = len(self.records) - len(self._searched) - self.finals.started
        encoders += len(self._encoders.untrained)
        searched = len(self._searched) if self.finals.is_decided else self.suggestions.most
        return encoders + searched + self.finals.planned(self.suggestions.most)

    @property
    def finals_left(self) -> int:
        return self.finals.planned(self.suggestions.most) - self.finals.started

    def epochs(self, record: TrialRecord) -> int:
        """The number of epochs of a trial that is not stopped."""
        encoder = self.plan.sweep.encoder if record.role == "encoder" else None
        return encoder.training.epochs if encoder else self.plan.epochs

    @property
    def outcome_epochs(self) -> tuple[int, ...]:
        """Epochs after which a trial may end: the rungs and the last epoch."""
        return (*self._pruner.stopper.rungs, self.plan.epochs)

    @property
    def live(self) -> int:
        return len(self._live)

    @property
    def running(self) -> list[TrialRecord]:
        return [self._by_number[number] for number in sorted(self._live)]

    def next(self) -> TrialRecord | None:
        """Start or continue a trial; None if there is none now, see :attr:`exhausted`."""
        if self.budget.used_up or self.gave_up:
            return None
        if self._unfinished:
            record = self._unfinished.popleft()
            self._run(record)
            return record
        if self._encoders.untrained:
            return self._start(
                "encoder", self._encoders.setting, self._encoders.untrained.popleft()
            )
        seed = self.plan.search.seed
        if not self._encoders.is_ready(seed):
            return None
        if not self._search_is_over:
            return self._start(*self.suggestions.next(self._next_number), seed)
        self.advance()
        remaining = self.finals.remaining
        if not remaining or not self._encoders.is_ready(remaining[0][1]):
            return None
        return self._start("finalist", *remaining[0])

    @property
    def may_end_early(self) -> bool:
        """Whether the search is running and ends when no better setting is expected."""
        return self.suggestions.guide is not None and not self.finals.is_final

    @property
    def latest_proposal(self) -> Proposal | None:
        """What a guided search that is running expected last."""
        guide = self.suggestions.guide
        return guide.latest if guide is not None and self.may_end_early else None

    @property
    def exhausted(self) -> bool:
        """Whether no trial remains, or no budget to run it, or too many have failed in a row."""
        return self.budget.used_up is not None or self.gave_up or self.complete

    @property
    def cut_short(self) -> bool:
        """Whether the hours are used up while trials remain."""
        return self.budget.used_up is not None and not self.complete

    @property
    def gave_up(self) -> bool:
        """Whether ``search.max_failures`` trials in a row have failed."""
        most = self.plan.search.max_failures
        return most is not None and self._failures >= most

    @property
    def how_it_ended(self) -> End:
        """How it ended, once :attr:`exhausted`."""
        states = {record.state for record in self.records}
        if states == {"failed"} or self.gave_up:
            return "failed"
        if not self.cut_short:
            return "finished"
        return "cut short" if "finished" in states else "in vain"

    @property
    def complete(self) -> bool:
        """Whether no trial is running (which might need a retry) and none will start."""
        if self._live or self._unfinished or self._encoders.untrained:
            return False
        if self.plan.search.seed in self._encoders.failed:
            return True
        return self.finals.is_decided and not self.finals.remaining

    def result(self, number: int, metrics: Entry) -> None:
        """Add the metrics of an epoch; a known epoch is ignored."""
        record = self._by_number[number]
        if record.add(metrics):
            del self._deaths[number]
            self._notify(record)

    def should_prune(self, number: int, entries: Iterable[Entry]) -> bool:
        """Whether to stop a trial after these epochs; see :class:`Pruner`."""
        return self._pruner.should_prune(self._by_number[number], entries)

    @property
    def progress(self) -> int:
        """A number that increases whenever an epoch is done or a trial starts or ends."""
        ended = sum(record.state != "running" for record in self.records)
        return len(self.records) + ended + sum(record.epochs for record in self.records)

    def interrupted(self) -> None:
        """Record that all running trials were interrupted from outside; they are retried."""
        stopped = self.running
        for record in stopped:
            record.pause(clock.time())
        self._unfinished.extend(stopped)
        self._live.clear()

    def config(self, record: TrialRecord) -> TrialConfig:
        return replace(
            record.config,
            unlimited=record.number in self._short_of_memory,
            generation=self.generation,
        )

    def out_of_memory(self, number: int, reason: str, *, at_fault: bool) -> None:
        """A trial ran out of memory on a shared GPU: as :meth:`died`, retried without a limit.

        It is at fault if it ran alone, so that fewer concurrent trials would not help.
        """
        self._short_of_memory.add(number)
        self.died(number, at_fault=at_fault, reason=reason)

    def died(self, number: int, *, at_fault: bool = True, reason: str | None = None) -> None:
        """A trial's process died: the trial is retried and continues from its checkpoint.

        It fails only if it may be at fault and its process died too often without completing an
        epoch in between, because processes on spot machines may die often.
        """
        record = self._by_number[number]
        self._deaths[number] += at_fault
        if self._deaths[number] > _MAX_DEATHS:
            deaths = f"its process died {self._deaths[number]} times in epoch {record.epochs + 1}"
            # Tune logs each death there.
            self.end(number, "failed", reason or f"{deaths}, see driver.log")
        else:
            record.pause(clock.time())
            self._live.discard(number)
            self._unfinished.append(record)

    def stop(self, number: int) -> None:
        """Record that a trial was stopped early, see :meth:`should_prune`."""
        epochs, metric = self._by_number[number].epochs, self.plan.sweep.scheduler.metric
        self.end(number, "stopped", f"{metric} too high after epoch {epochs}")

    def drop(self, number: int, by: str) -> bool:
        """Drop a trial for a user, whose process is ended by the caller; False if it may not be.

        Without the baseline or its encoder, the other trials have no meaning.
        """
        record = self._by_number.get(number)
        if record is None or not may_be_dropped(record):
            return False
        running = record.state == "running"
        record.drop(by)
        if running:
            if record in self._unfinished:
                self._unfinished.remove(record)
            self.end(number, "failed", record.reason)
        else:
            self._save(record)
            self._notify(record)
            self.advance()
        return True

    def retry(self, number: int) -> bool:
        """Let a trial that failed continue from its last checkpoint; False if it may not."""
        record = self._by_number.get(number)
        if record is None or not may_be_retried(record, self.records):
            return False
        self.budget.again(record)
        if record.role == "encoder":
            self._encoders.again(record)
        elif record.searched:  # its result is new
            self.suggestions.study.adopt(record.number, record.setting)
        record.again()
        self.code = self.code_now()
        self.generation += 1
        self._deaths.pop(number, None)
        self._failures = 0
        self._unfinished.append(record)
        self._save(record)
        self._notify(record)
        return True

    def end(
        self, number: int, state: State, reason: str | None = None, *, diverged: bool = False
    ) -> None:
        """Record that a running trial has ended."""
        record = self._by_number[number]
        record.state, record.ended, record.diverged = state, clock.time(), diverged
        record.pause(record.ended)
        record.reason = redact(reason) if reason else reason  # the reason is stored and shown
        self._live.discard(number)
        if not record.dropped:
            self._failures = self._failures + 1 if state == "failed" else 0
        self._save(record)
        self.budget.ends(record)
        if record.role == "encoder":
            self._encoders.ended(record)
        elif record.searched:
            self.suggestions.study.observe(record)
        self._notify(record)
        self.advance()

    @property
    def _next_number(self) -> int:
        return self.records[-1].number + 1 if self.records else 0

    def record(self, number: int) -> TrialRecord:
        return self._by_number[number]

    def _start(self, role: Role, setting: Setting, seed: int) -> TrialRecord:
        record = TrialRecord(
            number=self._next_number,
            role=role,
            setting=setting,
            seed=seed,
            started=clock.time(),
        )
        self._run(record)
        self.records.append(record)
        self._by_number[record.number] = record
        if record.searched:
            self._searched.append(record)
        if role == "finalist":
            self.finals.start(record)
        self._notify(record)
        return record

    def _run(self, record: TrialRecord) -> None:
        record.run(clock.time(), self.code)
        self._save(record)
        self._live.add(record.number)
        self.budget.begins(record, self.live)

    @property
    def _search_is_over(self) -> bool:
        """Whether no trial of the search may start; permanently once the finalists are decided."""
        if self.finals.is_final:
            return True
        if self.suggestions.are_used_up:
            return True
        return self._lacking is not None or self.suggestions.gain_nothing

    @property
    def _lacking(self) -> str | None:
        """The budget that does not allow another trial of the search (the baseline always fits)."""
        if not self._searched:
            return None
        return self.budget.lacking(self.plan.counts.first_trials(len(self._searched) + 1))

    @property
    def _search_is_running(self) -> bool:
        return any(self._by_number[number].searched for number in self._live)

    def advance(self) -> None:
        """Decide what follows: the finalists after the search, their further seeds after these."""
        if self._unfinished or self._encoders.untrained or self._search_is_running:
            return
        if not self._encoders.is_ready(self.plan.search.seed) or not self._search_is_over:
            return
        if self.finals.decide(self._searched) and len(self._searched) < self.suggestions.most:
            in_vain = self._lacking is None and self.suggestions.gain_nothing
            self.ended_by = "sampler" if in_vain else self._lacking
        while not (self._live or self.finals.remaining):
            if not (further := self.finals.extend()):
                break
            self._encoders.add(further)

    def _notify(self, record: TrialRecord) -> None:
        for listener in list(self.listeners):
            try:
                listener(record)
            except Exception:
                logger.exception("an observer of the sweep failed and is no longer called")
                self.listeners.remove(listener)


def overtime(record: TrialRecord, running: float, search: SearchSection) -> str | None:
    """Why a trial must end that has been running for so many seconds; None if it need not."""
    counted = record.runs[record.runs_before :]
    before = sum(run[1] - run[0] for run in counted if len(run) == 2)
    most = search.max_minutes_per_trial
    if most is None or before + running <= 60 * most:
        return None
    return (
        f"it took longer than search.max_minutes_per_trial = {most:g}: epoch {record.epochs} was "
        f"its last in {(before + running) / 60:.1f} minutes"
    )
