"""What a new sweep starts from, and the files of its store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.messages.reporter import Reporter
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.warm_start import Known, earlier_trials
from sweeps.store.earlier_sweeps import (
    known_files,
    on_other_data,
    recorded_for,
    sweeps_to_learn_from,
)
from sweeps.store.first_files import candidate_files, earlier_candidates, given_files, skipped_files
from sweeps.store.identity import Identity, identity_files
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import tracking_uri
from sweeps.tracking.kept_address import address_files

if TYPE_CHECKING:
    from trainables.data.core.base import Data


@dataclass(frozen=True)
class NewSweep:
    """A sweep that is about to be created, and what it learns from.

    Attributes:
        named: Trials of the sweeps that ``search.learn_from`` names, by name.
        known: What its search starts from.
        tracking: Address of MLflow.
    """

    sweep: SweepFile
    store: SweepStore
    named: Mapping[str, Sequence[TrialRecord]]
    known: Known
    tracking: str

    @classmethod
    def read(cls, sweep: SweepFile, store: SweepStore) -> NewSweep:
        """Raises UserError if a sweep that it names is missing or has not finished."""
        named = sweeps_to_learn_from(sweep, store.storage)
        return cls(
            sweep,
            store,
            named,
            Known(earlier_trials(sweep, named), recorded_for(sweep, store.storage)),
            tracking_uri(store.storage, sweep.tracking.uri),
        )

    def create(
        self, plan: Plan, identity: Identity, dataset: Data, given: SweepFile, reporter: Reporter
    ) -> None:
        """Create it in its store; `given` is the sweep file without what was resolved."""
        sweep, storage = self.sweep, self.store.storage
        if not sweep.search.is_guided:
            for line in on_other_data(sweep.search.named, identity.digest, storage):
                reporter.notice(line)
        count = earlier_candidates(
            sweep.selection.selected_from, identity.digest, storage, self.named
        )
        files = {**identity_files(identity), **candidate_files(count)}
        files |= skipped_files(dataset) | known_files(self.known)
        files |= address_files(self.tracking, storage) | given_files(given)
        self.store.create(plan.sweep, files)
