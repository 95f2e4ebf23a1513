"""The trained and untrained encoders of a sweep with two-stage training."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from trainables.contract.setting import Setting


class EncoderPlan:
    """The encoders of a sweep, one for each of its seeds; those of further seeds are added later.

    Without an ``encoder`` section every seed is ready. Seeds in `trained` have theirs in the store.
    """

    def __init__(self, plan: Plan, records: Sequence[TrialRecord], trained: Iterable[int]) -> None:
        encoder = plan.sweep.encoder
        own = [record for record in records if record.role == "encoder"]
        self.ready = set(trained if encoder else plan.seeds)
        self.failed = {record.seed for record in own if record.state == "failed"} - self.ready
        self._begun = {record.seed for record in own if record.state == "running"}
        self.untrained: deque[int] = deque()
        self.add(plan.seeds[: 1 + plan.counts.baseline])
        if encoder:
            loss = encoder.loss
            self.setting = Setting(loss.name, dict(loss.hyperparameters))

    def add(self, seeds: Iterable[int]) -> None:
        known = self.ready | self.failed | self._begun
        self.untrained.extend(seed for seed in seeds if seed not in known)

    def ended(self, record: TrialRecord) -> None:
        (self.ready if record.state == "finished" else self.failed).add(record.seed)
