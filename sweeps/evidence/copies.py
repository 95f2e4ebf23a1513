"""Test samples that equal training samples: whether they make the test too easy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from trainables.data.core.equal_rows import EQUAL_ROWS
from trainables.files.rows import Rows

if TYPE_CHECKING:
    from trainables.data.core.types import Labels

_CHANCE: Final = 0.025  # of a warning without reason, at most


@dataclass(frozen=True)
class Copies:
    """The errors of a network on test samples that equal a training sample, and on the others.

    Attributes:
        count: Number of samples that equal a training sample, of ``samples``.
        error: Share of wrong ones among them; of several decisions a sample has, all must be right.
        others: The same of the other samples, with its interval; NaN without any.
        mislead: Whether the error is lower on copies beyond chance, or all samples are copies.
    """

    count: int
    samples: int
    error: float
    others: tuple[float, float, float]
    mislead: bool

    def text(self, loss: str) -> str:
        """What a result says of it; `loss` names the network."""
        head = f"{self.count:,} of {self.samples:,} test samples equal a training sample"
        if self.count == self.samples:
            return f"{head}: the test says nothing about new samples."
        value, low, high = self.others
        said = (
            f"{head}; the error of {loss} on these is {self.error:.3f}, on the other "
            f"{self.samples - self.count:,} {value:.3f} [{low:.3f}, {high:.3f}]."
        )
        if not self.mislead:
            return said
        return (
            f"{said} Copies make the test too easy: expect the error of the others, and keep equal "
            f"rows together (dataset.group: {EQUAL_ROWS}) or remove copies."
        )


def judge_copies(rows: Rows, copies: Labels) -> Copies | None:
    """Errors on copies and on the other samples, from predictions on the test split; None without.

    ``copies`` (N,) is that of :class:`~trainables.data.core.base.Dataset`. The test is Fisher's,
    one-sided, of one sample for each content and group.
    """
    from scipy.stats import fisher_exact

    from trainables.metrics.inference.clusters import clusters_of
    from trainables.metrics.inference.influence import share_interval

    copied = copies >= 0
    if not copied.any():
        return None
    wrong = (rows.logits.argmax(1) != rows.labels).reshape(len(copies), -1).any(1)
    count, error = int(copied.sum()), float(wrong[copied].mean())
    if copied.all():
        return Copies(count, len(copies), error, (np.nan, np.nan, np.nan), mislead=True)
    groups = None if rows.groups is None else rows.groups.reshape(len(copies), -1)[:, 0]
    alone = wrong[~copied].astype(np.int64)
    others = Rows(alone[:, None], alone, groups=None if groups is None else groups[~copied])
    clusters = clusters_of(others.clusters(), len(alone))
    interval = share_interval(others.tensors()[1], 0.95, clusters)
    table = [
        _counts(wrong[copied], copies[copied] if groups is None else groups[copied]),
        _counts(wrong[~copied], None if groups is None else groups[~copied]),
    ]
    p = float(fisher_exact(table, alternative="less").pvalue)
    return Copies(count, len(copies), error, (float(alone.mean()), *interval), p < _CHANCE)


def _counts(wrong: npt.NDArray[np.bool_], units: Labels | None) -> tuple[int, int]:
    """Numbers of wrong and of right samples, one of each unit."""
    own = wrong if units is None else wrong[np.unique(units, return_index=True)[1]]
    return int(own.sum()), int((~own).sum())
