"""The trained and untrained encoders of a sweep with two-stage training."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from sweeps.search.record import TrialRecord
from sweeps.search.seed_counts import SeedCounts
from sweeps.sweep_file.schema import SweepFile
from trainables.contract.setting import Setting


class EncoderPlan:
    """The encoders of a sweep, one for each of its seeds; those of further seeds are added later.

    Without an ``encoder`` section every seed is ready. Seeds in `trained` have theirs in the store.
    """

    def __init__(
        self, sweep: SweepFile, records: Sequence[TrialRecord], trained: Iterable[int]
    ) -> None:
        own = [record for record in records if record.role == "encoder"]
        self.ready = set(trained if sweep.encoder else sweep.seeds)
        self.failed = {record.seed for record in own if record.state == "failed"} - self.ready
        self._begun = {record.seed for record in own if record.state == "running"}
        self.untrained: deque[int] = deque()
        self.add(sweep.seeds[: 1 + SeedCounts.of(sweep).baseline])
        if sweep.encoder:
            loss = sweep.encoder.loss
            self.setting = Setting(loss.name, dict(loss.hyperparameters))

    def add(self, seeds: Iterable[int]) -> None:
        known = self.ready | self.failed | self._begun
        self.untrained.extend(seed for seed in seeds if seed not in known)

    def ended(self, record: TrialRecord) -> None:
        (self.ready if record.state == "finished" else self.failed).add(record.seed)
