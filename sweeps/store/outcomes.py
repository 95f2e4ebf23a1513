"""All metrics of trials of the search, which report only those that the search reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from trainables.files.rows import ReadRows

logger = logging.getLogger("calsweep")

_IN_WHOLE = "test_nll_low"  # an interval that the search does not need


def complete(records: Iterable[TrialRecord], plan: Plan, read: ReadRows) -> Iterator[TrialRecord]:
    """Add what finished trials lack of all metrics, from their predictions; gives those changed.

    Trials whose predictions cannot be read are left as they are.
    """
    from trainables.trials.outcome import Extent, completed

    sweep = plan.sweep
    criterion = None if sweep.training.adapt_share else plan.rule.criterion
    for record in records:
        if record.state != "finished" or not record.searched or _IN_WHOLE in record.outcome:
            continue
        try:
            rows = read("validation", record.number), read("test", record.number)
            found = completed(record.outcome, *rows, Extent.whole(plan.rule.deciding), criterion)
        except (OSError, ValueError) as error:  # pyarrow raises ValueErrors
            logger.warning("trial %d has few metrics: %s", record.number, error)
        else:
            record.complete(found)
            yield record
