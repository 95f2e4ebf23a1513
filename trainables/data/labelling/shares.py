"""Soft labels: the shares of the classes in each row, or votes for them."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ROUNDING: Final = 1e-3  # how far the sum of a row may be from 1 without being divided
_TOLERANCE: Final = 1e-2  # of a row's sum, because files often have two or three decimals
_MOST: Final = 0.05  # of the sum of many shares with two decimals
_MOST_VOTES: Final = 4  # how often more votes one sample may have than another


def tolerance_of_sums(rows: Array) -> float:
    """How far sums of rows (N, K) may be from 1: what rounding to two decimals explains, or .01.

    Rows with values that are not finite do not count.
    """
    finite = np.isfinite(rows).all(axis=1)
    hundredths = 100 * (rows if finite.all() else rows[finite])
    two_decimals = bool(np.abs(hundredths - hundredths.round()).max(initial=0) < ROUNDING)
    explained = 0.005 * rows.shape[1] if two_decimals else 0.0
    return max(_TOLERANCE, min(explained, _MOST)) + 1e-6  # floats of .99


def as_shares(rows: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Shares (N, K), each row with a sum of 1, and which rows are neither shares nor votes, (N,).

    Whole numbers from 0 are votes, if some are above 1 and their sums are similar. Shares of wrong
    rows are equal.
    """
    values = rows.astype(np.float64)
    with np.errstate(invalid="ignore"):
        sums = values.sum(axis=1)
        wrong = ~((values >= 0).all(axis=1) & np.isfinite(sums) & (sums > 0))
        if not _are_votes(values[~wrong]):
            wrong |= np.abs(sums - 1) > tolerance_of_sums(values)
    values[wrong] = 1
    return values / values.sum(axis=1, keepdims=True), wrong


def _are_votes(rows: Array) -> bool:
    if not rows.size or rows.max() <= 1 or (rows != rows.round()).any():
        return False
    sums = rows.sum(axis=1)
    return bool(sums.min() * _MOST_VOTES >= sums.max())
