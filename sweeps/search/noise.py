"""Detects that a search has reached the noise of its validation samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sweeps.search.ranking import baseline_means, excesses
from sweeps.search.record import TrialRecord
from sweeps.search.rules import Rule
from trainables.contract.metric_names import MetricName


def is_at_noise(record: TrialRecord, rule: Rule) -> bool:
    """Whether a perfectly calibrated model could have the objective of a finished trial."""
    value = record.outcome.get(rule.objective, math.inf)
    calibrated = record.outcome.get(calibrated_bound(rule), -math.inf)
    return record.state == "finished" and value <= calibrated


def calibrated_bound(rule: Rule) -> str:
    return MetricName.parse(rule.objective).with_statistic("calibrated_high")


def first_at_noise(records: Sequence[TrialRecord], rule: Rule) -> TrialRecord | None:
    """The first trial of the search on which no improvement could be shown; None if there is none.

    It is feasible, and its calibration error is at most the calibrated bound: a perfectly
    calibrated model with the same confidences could show it on this many samples.
    """
    references = baseline_means((r for r in records if r.role == "baseline"), rule)
    if references is None:
        return None
    return next(
        (
            record
            for record in records
            if record.searched
            and is_at_noise(record, rule)
            and all(excess <= 0 for excess in excesses(record, references, rule).values())
        ),
        None,
    )
