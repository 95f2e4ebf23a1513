"""When a search has come to what its validation samples can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sweeps.search.ranking import baseline_means, excesses
from sweeps.search.record import TrialRecord
from sweeps.sweep_file.schema import Rule

CALIBRATED = "_calibrated_high"  # what a calibrated model would show, in 97.5 of 100 cases at most


def is_at_noise(record: TrialRecord, rule: Rule) -> bool:
    """Whether a finished trial's objective is one that a perfectly calibrated model would show."""
    value = record.outcome.get(rule.objective, math.inf)
    calibrated = record.outcome.get(rule.objective + CALIBRATED, -math.inf)
    return record.state == "finished" and value <= calibrated


def first_at_noise(records: Sequence[TrialRecord], rule: Rule) -> TrialRecord | None:
    """The first trial of the search that no other could be shown to improve on.

    Guard and constraints let it pass, and its calibration error is no larger than that of a
    perfectly calibrated model with the same confidences on so many samples. None where there is no
    such trial, or no baseline yet to hold it to.
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
