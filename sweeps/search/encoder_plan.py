"""The trained and untrained encoders of a sweep with two-stage training."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from trainables.contract.setting import Setting


class EncoderPlan:
    """The encoders of a sweep, one for each of its seeds; those of further seeds are added later.

    Without an ``encoder`` section every seed is ready. Seeds in `trained` have theirs in the store.
    An encoder that fails is trained once more, as a new trial.
    """

    def __init__(self, plan: Plan, records: Sequence[TrialRecord], trained: Iterable[int]) -> None:
        encoder = plan.sweep.encoder
        own = [record for record in records if record.role == "encoder"]
        self.ready = set(trained if encoder else plan.seeds)
        self._failures = Counter(record.seed for record in own if record.state == "failed")
        self._begun = {record.seed for record in own if record.state == "running"}
        self.untrained: deque[int] = deque()
        self.add(plan.seeds[: 1 + plan.counts.baseline])
        if encoder:
            loss = encoder.loss
            self.setting = Setting(loss.name, dict(loss.hyperparameters))

    @property
    def failed(self) -> set[int]:
        """The seeds whose encoder failed twice."""
        return {seed for seed, times in self._failures.items() if times > 1} - self.ready

    def add(self, seeds: Iterable[int]) -> None:
        known = self.ready | self.failed | self._begun
        self.untrained.extend(seed for seed in seeds if seed not in known)

    def ended(self, record: TrialRecord) -> None:
        if record.state == "finished":
            self.ready.add(record.seed)
            return
        self._failures[record.seed] += 1
        if self._failures[record.seed] == 1:
            self.untrained.append(record.seed)
