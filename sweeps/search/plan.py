"""What a sweep will do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from sweeps.search.rules import Rule, rule_of
from sweeps.search.seed_counts import SeedCounts
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.search import SchedulerSection, SearchSection, SelectionSection
from sweeps.sweep_file.sections.training import TrainingSection

if TYPE_CHECKING:
    from sweeps.search.space import SearchSpace

ANY_NUMBER_OF_CLASSES: Final = 10


@dataclass(frozen=True)
class Plan:
    """What a sweep will do: its sweep file, and what follows from it.

    :func:`sweeps.planning.data_fit.resolve` completes the file once, when the data and the
    machines are known; the store keeps it. Only ``calsweep check`` has the plan of a file whose
    data are unknown, see :attr:`is_complete`.
    """

    sweep: SweepFile

    @cached_property
    def rule(self) -> Rule:
        return rule_of(self.sweep)

    @cached_property
    def space(self) -> SearchSpace:
        from sweeps.search.space import SearchSpace  # Optuna takes a quarter of a second

        return SearchSpace(self.sweep.losses)

    @cached_property
    def counts(self) -> SeedCounts:
        return SeedCounts.of(
            self.sweep.selection, several_objectives=len(self.sweep.objectives) > 1
        )

    @property
    def name(self) -> str:
        return self.sweep.name

    @property
    def search(self) -> SearchSection:
        return self.sweep.search

    @property
    def epochs(self) -> int:
        """The number of epochs of a trial that is not stopped."""
        return self.sweep.training.epochs

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of the search, and the fresh ones that finalists may get."""
        return self.sweep.seeds

    @cached_property
    def settings(self) -> int:
        """The largest number of settings, if the number of classes does not matter."""
        initial = self.space.initial_settings(ANY_NUMBER_OF_CLASSES)
        return self.space.most_trials(self.search.trials, initial)

    @property
    def again(self) -> int:
        """The largest number of trials of finalists and the baseline with fresh seeds."""
        return self.counts.most_trials(self.settings)

    @property
    def most_trials(self) -> int:
        """The total number of trials, if every finalist passes the guard."""
        return self.settings + self.again + self._most_encoders

    @property
    def pilot_epochs(self) -> int:
        """The most epochs of the pilot; see :mod:`sweeps.search.pilot`."""
        return self.epochs if self.sweep.training.patience is not None else 0

    @property
    def most_epochs(self) -> int:
        """The total number of epochs of the pilot and all trials, if none is stopped early."""
        found = (self.settings + self.again) * self.epochs + self.pilot_epochs
        if self.search.max_epochs is not None:
            found = min(found, self.search.max_epochs)
        if self.sweep.encoder:
            found += self._most_encoders * self.sweep.encoder.training.epochs
        return found

    @property
    def _most_encoders(self) -> int:
        """The number of encoders, if all seeds are used; a frozen one is that of all seeds."""
        encoder = self.sweep.encoder
        return 0 if encoder is None else 1 if encoder.frozen else len(self.seeds)

    @property
    def is_complete(self) -> bool:
        """Whether all defaults are filled in, which requires the data."""
        return self.sweep.training.model_fields_set == set(TrainingSection.model_fields)

    @property
    def of_pilot(self) -> Plan:
        """The plan of the pilot: the baseline alone, see :mod:`sweeps.search.pilot`."""
        changed = {
            "search": self.search.model_copy(update={"trials": 1, "sampler": "tpe"}),
            "scheduler": SchedulerSection(name="none"),
            "selection": SelectionSection(finalists=0, seeds=0),
        }
        return Plan(self.sweep.model_copy(update=changed))

    def with_epochs(self, epochs: int) -> Plan:
        """The plan in which every trial has this number of epochs."""
        training = self.sweep.training.model_copy(update={"epochs": epochs})
        return Plan(self.sweep.model_copy(update={"training": training}))
