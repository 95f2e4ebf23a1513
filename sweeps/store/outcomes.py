"""All metrics of trials of the search, which report only those that the search reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sweeps.errors import first_line
from sweeps.messages.reporter import logger
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from trainables.files.rows import ReadRows

_IN_WHOLE = "test_nll_low"  # an interval that the search does not need


def complete(records: Iterable[TrialRecord], plan: Plan, read: ReadRows) -> Iterator[TrialRecord]:
    """Add what finished trials lack of all metrics, from their predictions; gives those changed.

    Trials are left as they are if their predictions cannot be read or the code of a custom metric
    is missing or fails.
    """
    from trainables.metrics.own_metric import own_metrics
    from trainables.trials.outcome import Extent, completed

    sweep, deciding = plan.sweep, plan.rule.deciding
    criterion = None if sweep.training.adapt_share else plan.rule.scaling.criterion
    for record in records:
        if record.state != "finished" or not record.searched or _IN_WHOLE in record.outcome:
            continue
        try:
            rows = read("validation", record.number), read("test", record.number)
            own = own_metrics(sweep.search.own_metrics)
            extent = replace(Extent.whole(deciding, own), references=())  # only finalists have them
            found = completed(record.outcome, *rows, extent, criterion)
        except Exception as error:  # a custom metric may raise anything
            logger.warning("trial %d has few metrics: %s", record.number, first_line(error))
        else:
            record.complete(found)
            yield record
