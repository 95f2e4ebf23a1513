"""One trial of a sweep, as the driver, the store and MLflow know it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["encoder", "baseline", "published", "search", "finalist"]
State = Literal["running", "finished", "stopped", "failed"]


@dataclass
class TrialRecord:
    """One trial of a sweep.

    Attributes:
        number: Position in the sweep, from 0.
        role: Why it was run.
        loss: Name of the loss.
        hyperparameters: The loss's hyperparameters of this trial.
        seed: Seed of its training.
        state: ``finished`` ran all epochs, ``stopped`` was cut by the scheduler.
        reason: Why it failed or was stopped.
        started: Seconds since the epoch.
        ended: The same, or None while it runs.
        history: One entry per epoch, the metrics by name.
    """

    number: int
    role: Role
    loss: str
    hyperparameters: dict[str, Any]
    seed: int
    started: float
    state: State = "running"
    reason: str | None = None
    ended: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def searched(self) -> bool:
        """Whether it is of the search: no encoder, nor a finalist's new seed."""
        return self.role not in ("encoder", "finalist")

    @property
    def outcome(self) -> dict[str, float]:
        """The metrics of the last epoch; empty before the first."""
        return self.history[-1] if self.history else {}

    @property
    def epochs(self) -> int:
        """Epochs completed."""
        return int(self.outcome.get("epoch", 0))

    @property
    def setting(self) -> tuple[str, str]:
        """What makes two trials the same but for their seed."""
        return self.loss, json.dumps(self.hyperparameters, sort_keys=True)

    def add(self, entry: dict[str, float]) -> bool:
        """Append an epoch's metrics, unless that epoch is there already; whether it was new."""
        if entry["epoch"] <= self.epochs:
            return False
        self.history.append(entry)
        return True
