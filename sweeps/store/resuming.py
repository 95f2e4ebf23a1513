"""What a sweep needs to continue after an interruption."""

from __future__ import annotations

from collections.abc import Callable

from sweeps.errors import SweepInterruptedError
from sweeps.messages.formatting import resume_command
from sweeps.search import clock
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.store.sweep_store import SweepStore
from trainables.contract.config import trial_setting


def load_records(plan: Plan, store: SweepStore, notice: Callable[[str], None]) -> list[TrialRecord]:
    """The stored trials; messages about damaged ones are passed to `notice`."""
    return [_with_history(plan, store, each) for each in store.load_records(notice)]


def _with_history(plan: Plan, store: SweepStore, record: TrialRecord) -> TrialRecord:
    """The record of an interrupted trial, with the epochs in its last checkpoint."""
    if record.state == "running":
        from trainables.files.checkpoints import load_checkpoint

        setting = trial_setting(plan.sweep.trained.name, plan.sweep.trained.options, record.config)
        state = load_checkpoint(store.trial_folder(record.number) / "checkpoints", setting)
        record.cut_off(state["history"] if state else (), clock.time())
    return record


def interrupted(store: SweepStore) -> SweepInterruptedError:
    again = resume_command(store.name, store.storage)
    return SweepInterruptedError(f"interrupted; {again} continues it")
