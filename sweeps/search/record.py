"""One trial of a sweep, for the driver, the store and MLflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from sweeps.messages.formatting import format_setting
from sweeps.search.entries import CompactEntry
from trainables.contract.messages import Role, TrialConfig
from trainables.contract.setting import Setting

State = Literal["running", "finished", "stopped", "failed"]
Entry = Mapping[str, float]
"""The metrics of an epoch."""


@dataclass
class TrialRecord:
    """One trial of a sweep; times are in seconds since the epoch.

    Attributes:
        number: Position in the sweep, from 0.
        seed: Training seed.
        state: ``finished`` ran all epochs, ``stopped`` was stopped by the scheduler.
        reason: Why it failed or was stopped.
        history: One entry per epoch: metrics by name.
        runs: When its process ran: ``[began, ended]`` for each run, ``[began]`` for one that
            continues or was interrupted.
        diverged: Whether it failed because its numbers were not finite.
        dropped: Whether a user dropped it; its state is ``failed``.
        runs_before: How many runs had ended when it was last retried; the limit of its minutes
            counts those after them.
        code: Digests of the code that trained it, in order; see :mod:`sweeps.store.code`.
        sweep_id: Id of the sweep that wrote it; None before it is written.
    """

    number: int
    role: Role
    setting: Setting
    seed: int
    started: float
    state: State = "running"
    reason: str | None = None
    ended: float | None = None
    history: list[Entry] = field(default_factory=list)
    runs: list[list[float]] = field(default_factory=list)
    code: list[str] = field(default_factory=list, compare=False)
    diverged: bool = False
    dropped: bool = False
    runs_before: int = 0
    sweep_id: str | None = field(default=None, compare=False)

    @classmethod
    def from_file(cls, number: int, values: Any) -> TrialRecord:
        """Read a record from the content of a trial's file; unknown fields are ignored.

        Raises:
            ValueError: It is not a record, or belongs to another trial.
            TypeError: It is not a mapping, or values are missing or not numbers.
            OverflowError: A number is too large.
        """
        record = cls(**known_fields(cls, values))
        if not record._is_whole(number):
            raise ValueError(f"not the record of trial {number}")
        record.history = [CompactEntry(entry) for entry in record.history]
        return record

    def to_file(self) -> dict[str, object]:
        return {**flat(self), "history": [dict(entry) for entry in self.history]}

    def _is_whole(self, number: int) -> bool:
        kinds = (
            (self.hyperparameters, dict),
            (self.loss, str),
            (self.seed, int),
            (self.started, int | float),
            (self.ended, int | float | None),
            (self.reason, str | None),
            (self.history, list),
            (self.runs, list),
            (self.code, list),
            (self.diverged, bool),
            (self.dropped, bool),
            (self.runs_before, int),
            (self.sweep_id, str | None),
        )
        return (
            self.number == number
            and self.state in get_args(State)
            and self.role in get_args(Role)
            and all(isinstance(value, kind) for value, kind in kinds)
            and all(isinstance(each, dict) and "epoch" in each for each in self.history)
            and all(_is_run(run) for run in self.runs)
            and (self.state != "finished" or self.role == "encoder" or "val_error" in self.outcome)
        )

    @property
    def searched(self) -> bool:
        """Whether it belongs to the search: neither an encoder nor a finalist."""
        return self.role not in ("encoder", "finalist")

    @property
    def outcome(self) -> Entry:
        """The metrics of the last epoch; empty before the first."""
        return self.history[-1] if self.history else {}

    @property
    def epochs(self) -> int:
        return int(self.outcome.get("epoch", 0))

    def run(self, now: float, code: str = "") -> None:
        """Record that its process starts, for the first time or again, with this code."""
        self.runs.append([now])
        if code and code not in self.code[-1:]:
            self.code.append(code)

    def again(self) -> None:
        """Record that a trial that had ended continues."""
        self.state, self.reason, self.ended, self.dropped = "running", None, None, False
        self.runs_before = len(self.runs)

    def drop(self, by: str) -> None:
        self.state, self.reason, self.dropped = "failed", f"dropped by {by}", True

    def pause(self, now: float) -> None:
        if self.runs and len(self.runs[-1]) == 1:
            self.runs[-1].append(max(self.runs[-1][0], now))

    def cut_off(self, history: Iterable[Entry], now: float) -> None:
        """Record that its process ended without a driver, after the last epoch of its checkpoint.

        Only durations are taken from the worker, because its clock may differ by hours from the
        driver's, which says what time is `now`.
        """
        known = self.epochs
        self.history = list(history)
        if self.runs and len(self.runs[-1]) == 1:
            (began,) = self.runs[-1]
            last = self.outcome if self.epochs > known else {}
            seconds = last.get("run_seconds", last.get("timestamp", began) - began)
            ended = began + max(0.0, seconds)
            self.pause(min(ended, now) if now >= began else ended)  # the clock may be set back

    def complete(self, outcome: Entry) -> None:
        """Replace the metrics of the last epoch by the same with further ones."""
        self.history = [*self.history[:-1], CompactEntry(outcome)]

    def seconds(self, now: float) -> float:
        """Total running time."""
        return sum(max(0.0, (run[1] if len(run) == 2 else now) - run[0]) for run in self.runs)

    @property
    def loss(self) -> str:
        return self.setting.loss

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return self.setting.hyperparameters

    @property
    def config(self) -> TrialConfig:
        return TrialConfig(self.number, self.role, self.setting, self.seed)

    @property
    def label(self) -> str:
        """``dual_focal γ=4.7``, for a finalist or an encoder with the seed."""
        setting = format_setting(self.loss, self.hyperparameters)
        seed = "" if self.searched else f"seed={self.seed}"
        stage = "encoder" if self.role == "encoder" else ""
        return " ".join(part for part in (stage, setting, seed) if part)

    def add(self, entry: Entry) -> bool:
        """Append an epoch's metrics unless it exists; returns whether it was new."""
        if entry["epoch"] <= self.epochs:
            return False
        self.history.append(CompactEntry(entry))
        return True


def may_be_dropped(record: TrialRecord) -> bool:
    """Whether a user may drop a trial: not what others are compared with, or what failed."""
    return record.role not in ("baseline", "encoder") and record.state != "failed"


def may_be_retried(record: TrialRecord, records: Iterable[TrialRecord]) -> bool:
    """Whether a user may retry a trial: one that failed, unless a later trial has run it again."""
    later = (each for each in records if each.number > record.number)
    same = (record.role, record.setting, record.seed)
    return record.state == "failed" and same not in ((r.role, r.setting, r.seed) for r in later)


def known_fields(kind: type, values: Any) -> dict[str, Any]:
    """The values of :func:`flat` that a dataclass has fields for; a newer one may have had more.

    Raises TypeError if they are no mapping, or there is a setting and it lacks its loss.
    """
    if not isinstance(values, dict):
        raise TypeError(f"{type(values).__name__} is no mapping")
    names = [each.name for each in fields(kind)]
    if "setting" in names:
        values = {**values, "setting": Setting(**known_fields(Setting, values))}
    return {name: values[name] for name in names if name in values}


def flat(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as files have them: those of its setting among the others."""
    values = {each.name: getattr(value, each.name) for each in fields(value)}
    return {**vars(values.pop("setting")), **values}


def _is_run(run: Any) -> bool:
    return (
        isinstance(run, list)
        and len(run) in (1, 2)
        and all(isinstance(value, int | float) for value in run)
    )
