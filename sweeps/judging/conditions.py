"""Conditions such as ``ece > .05``, which fail a judgement if they hold beyond chance."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from sweeps.errors import UserError
from sweeps.judging.facts import Judged
from trainables.metrics import METRICS
from trainables.plugins.arguments import did_you_mean, is_number


@dataclass(frozen=True)
class Condition:
    """A metric above or below a bound."""

    metric: str
    above: bool
    bound: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse ``ece > .05``; UserError if it has another form or no such metric."""
        match = re.fullmatch(r"\s*(\w+)\s*([<>])\s*(\S+)\s*", text)
        if match is None or not is_number(match[3]) or not math.isfinite(float(match[3])):
            raise UserError(
                "write a metric, < or >, and a number: 'ece > .05'", "fail_if", repr(text)
            )
        if match[1] not in METRICS:
            hint = did_you_mean(match[1], METRICS)
            raise UserError(f"there is no metric {match[1]!r}{hint}", "fail_if", repr(text))
        return cls(match[1], match[2] == ">", float(match[3]))

    def __str__(self) -> str:
        return f"{self.metric} {'>' if self.above else '<'} {self.bound:g}"

    def holds(self, model: Judged) -> bool:
        """Whether it holds beyond chance: the whole interval is on that side of the bound.

        Raises:
            UserError: The metric, or its interval, is not known for this model.
        """
        found = model.metrics.get(self.metric)
        if found is None or math.isnan(found.low):
            raise UserError(f"{model.name}: {self.metric} has no interval, so `{self}` is unknown")
        return found.low > self.bound if self.above else found.high < self.bound
