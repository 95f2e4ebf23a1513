"""The trained and untrained encoders of a sweep with two-stage training."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from trainables.contract.setting import Setting


class EncoderPlan:
    """The encoders of a sweep, one for each of its seeds; those of further seeds are added later.

    A frozen network is the encoder of all seeds, with the number 0.
    Without an ``encoder`` section every seed is ready. Seeds in `trained` have theirs in the store.
    An encoder that fails is trained once more, as a new trial.
    """

    def __init__(self, plan: Plan, records: Sequence[TrialRecord], trained: Iterable[int]) -> None:
        encoder = plan.sweep.encoder
        own = [record for record in records if record.role == "encoder"]
        self._frozen = encoder is not None and encoder.frozen
        self._seeds = plan.seeds
        self._trained = set(trained) if encoder else set(plan.seeds)
        self._failures = Counter(record.seed for record in own if record.state == "failed")
        self._begun = {record.seed for record in own if record.state == "running"}
        self.untrained: deque[int] = deque()
        self.add(plan.seeds[: 1 + plan.counts.baseline])
        if encoder:
            loss = encoder.loss
            self.setting = Setting(loss.name, dict(loss.hyperparameters))

    def is_ready(self, seed: int) -> bool:
        """Whether trials with this seed have their encoder."""
        return self._of(seed) in self._trained

    @property
    def failed(self) -> set[int]:
        """The seeds whose encoder failed twice."""
        given_up = {each for each, times in self._failures.items() if times > 1} - self._trained
        return {seed for seed in self._seeds if self._of(seed) in given_up}

    def add(self, seeds: Iterable[int]) -> None:
        known = self._trained | self._begun | self.failed | set(self.untrained)
        needed = dict.fromkeys(self._of(seed) for seed in seeds if seed not in self.failed)
        self.untrained.extend(seed for seed in needed if seed not in known)

    def _of(self, seed: int) -> int:
        return 0 if self._frozen else seed

    def again(self, record: TrialRecord) -> None:
        """A failed encoder is trained again, as the same trial."""
        self._failures.pop(record.seed, None)
        self._begun.add(record.seed)
        if record.seed in self.untrained:
            self.untrained.remove(record.seed)

    def ended(self, record: TrialRecord) -> None:
        if record.state == "finished":
            self._trained.add(record.seed)
            return
        self._failures[record.seed] += 1
        if self._failures[record.seed] == 1:
            self.untrained.append(record.seed)
