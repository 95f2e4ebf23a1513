"""Compares a new classifier with the one in production, on the same test split."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweeps.evidence.comparison import ERROR
from sweeps.evidence.scaling import double_tensors
from sweeps.results.verdicts import Comparison
from trainables.files.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor


def compare_with_champion(ours: Rows, theirs: Rows, sweeps: int = 1) -> Comparison:
    """Compare two trained classifiers by NLL, given their calibrated predictions on a test split.

    Both are already trained, so the interval is over samples alone. All `sweeps` that were
    evaluated on the split share the allowed error. NLL decides, because it is lower both for better
    calibrated and for more accurate classifiers; the ECE of a constant can be 0.

    Raises:
        ValueError: The predictions are of different samples or classes.
    """
    from trainables import metrics as M

    if ours.logits.shape != theirs.logits.shape or not np.array_equal(ours.labels, theirs.labels):
        raise ValueError("the predictions are of different samples")
    found = M.difference(
        "nll",
        [_probs(ours)],
        [_probs(theirs)],
        double_tensors(ours)[1],
        confidence=1 - ERROR / sweeps,
        decisions=ours.decisions,
        clusters=ours.clusters(),
    )
    values = found.value, found.low, found.high, found.verdict
    return Comparison(
        "recommended", "champion", "nll", *values, 1, "test", sweeps, groups=ours.num_groups
    )


def _probs(rows: Rows) -> Tensor:
    return double_tensors(rows)[0].softmax(dim=1)
