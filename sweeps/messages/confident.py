"""How often predictions of a stated confidence are right, as values and as text."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Confident:
    """Predictions of about the same confidence: its mean, and the share of them that is right.

    Its 95 % interval is NaN if samples are not independent. `before` is the share at the same
    confidence before scaling, NaN if nothing is scaled.
    """

    confidence: float
    right: float
    low: float = math.nan
    high: float = math.nan
    before: float = math.nan

    @property
    def line(self) -> str:
        """``Of 100 test predictions made with 90 % confidence, 88 are right (…)``."""
        notes = []
        if not math.isnan(self.low):
            notes.append(f"95 % interval {100 * self.low:.0f} to {100 * self.high:.0f}")
        if not math.isnan(self.before):
            notes.append(f"before its scaling: {100 * self.before:.0f}")
        more = f" ({'; '.join(notes)})" if notes else ""
        return (
            f"Of 100 test predictions made with {100 * self.confidence:.0f} % confidence, "
            f"{100 * self.right:.0f} are right{more}."
        )
