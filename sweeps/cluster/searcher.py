"""What Tune asks for the next trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.tune.search import Searcher

from sweeps.search.ledger import Ledger


class LedgerSearcher(Searcher):
    """Hands the ledger's next trial to Tune, as long as there is a free slot for it.

    Args:
        ledger: The sweep's book.
        slots: How many trials may run at once, now.
    """

    def __init__(self, ledger: Ledger, slots: Callable[[], int]) -> None:
        super().__init__()
        self._ledger = ledger
        self._slots = slots

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The configuration of the next trial; None to wait; FINISHED at the end."""
        if self._ledger.exhausted:
            return str(Searcher.FINISHED)
        if self._ledger.live >= self._slots():
            return None
        record = self._ledger.next()
        if record is None:
            return str(Searcher.FINISHED) if self._ledger.exhausted else None
        return record.config.to_tune()

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing to do: :class:`LedgerCallback` writes down how a trial ended."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: the ledger's records are written as they come."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""
