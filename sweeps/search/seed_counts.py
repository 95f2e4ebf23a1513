"""How many fresh seeds the finalists and the baseline get."""

from __future__ import annotations

from dataclasses import dataclass

from sweeps.sweep_file.sections.search import SelectionSection


@dataclass(frozen=True)
class SeedCounts:
    """Numbers of fresh seeds.

    Attributes:
        finalists: The largest number of finalists, without the baseline.
        first: Of each finalist at first. Only the best one gets more, unless all are compared.
        looks: Of the best finalist, after which its verdict is looked at; the first is always
            reached. Empty without finalists.
        baseline: Of the baseline at first; later it has at least as many as the best finalist.
    """

    finalists: int
    first: int
    looks: tuple[int, ...]
    baseline: int

    @classmethod
    def of(cls, selection: SelectionSection, *, several_objectives: bool) -> SeedCounts:
        looks = tuple(selection.looks)
        compares_all = selection.per_loss or several_objectives
        first = looks[0] if looks and compares_all else min(1, len(looks))
        return cls(selection.finalists if looks else 0, first, looks, selection.seeds_of_baseline)

    @property
    def stages(self) -> tuple[int, ...]:
        """Numbers of seeds of the best finalist, one after the other."""
        return tuple(dict.fromkeys((self.first, *self.looks)))

    def first_trials(self, searched: int) -> int:
        """Upper bound of the trials until the first look, given the number of settings."""
        if not searched:
            return 0
        return self.baseline + self.of_finalists(min(self.finalists, searched - 1))

    def of_finalists(self, count: int) -> int:
        """Trials of this many finalists until the first look."""
        return count * self.first + (self.looks[0] - self.first) if count else 0

    def most_trials(self, searched: int) -> int:
        """Upper bound of the trials of finalists and baseline, given the number of settings."""
        further = 0
        if min(self.finalists, searched - 1) > 0:
            most = self.looks[-1]
            further = most - self.looks[0] + max(0, most - self.baseline)
        return self.first_trials(searched) + further

    def affordable(self, trials: int) -> int:
        """The number of finalists that this many trials suffice for."""
        count = self.finalists
        while count and self.baseline + self.of_finalists(count) > trials:
            count -= 1
        return count
