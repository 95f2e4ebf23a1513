"""Stoppers that are not part of calsweep, for comparison on recorded trials."""

from __future__ import annotations

from dataclasses import replace

from sweeps.search.record import Entry, TrialRecord
from sweeps.search.stopping import SuccessiveHalving
from trainables.contract.setting import BASELINE


class AcrossLosses(SuccessiveHalving):
    """ASHA across all losses."""

    def judge(self, record: TrialRecord, entry: Entry) -> bool:
        """See :class:`~sweeps.search.stopping.Stopper`."""
        return super().judge(replace(record, setting=BASELINE), entry)
