"""The mean probability of a class against its frequency, as values and as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Level = Literal["too low", "too high", "neither"]


@dataclass(frozen=True)
class Share:
    """The mean probability of a class, and how frequent it is.

    The interval of the frequency is for samples with these probabilities. It leaves the mean out
    if the two differ by more than chance. Its ends are NaN if it is not known.
    """

    mean: float
    frequency: float
    low: float = math.nan
    high: float = math.nan

    @property
    def word(self) -> Level:
        if self.mean < self.low:
            return "too low"
        return "too high" if self.mean > self.high else "neither"


def class_words(name: str) -> str:
    """The name of a class in a sentence: ``default``, ``class 1``."""
    return f"class {name}" if name.isdecimal() else name


def share_line(name: str, share: Share) -> str:
    """``P(default) is 1.2 % on average, 2.6 % are default [2.25, 2.95]: too low by …``."""
    what = class_words(name)
    ends = verdict = ""
    if not math.isnan(share.low):
        ends = f" [{percent(share.low, 3)}, {percent(share.high, 3)}]"
        verdict = f": {by_how_much(share) or 'no difference beyond chance'}"
    return (
        f"P({what}) is {percent(share.mean)} % on average, {percent(share.frequency)} % are "
        f"{what}{ends}{verdict}."
    )


def by_how_much(share: Share) -> str:
    """``too low by a factor of 2.2``, ``too high by 43 %``; empty if it may be chance."""
    if share.word == "neither" or min(share.mean, share.frequency) <= 0:
        return "" if share.word == "neither" else share.word
    ratio = share.mean / share.frequency
    if max(ratio, 1 / ratio) < 2:
        return f"{share.word} by {100 * abs(ratio - 1):.0f} %"
    return f"{share.word} by a factor of {max(ratio, 1 / ratio):.2g}"


def percent(value: float, digits: int = 2) -> str:
    """A fraction in percent, with one decimal or two digits: ``1.2``, ``26.4``, ``0.034``."""
    if not 0 < value < 1:
        return f"{100 * value:.0f}"
    if value < 1e-6:
        return f"{100 * value:.0e}"
    decimals = max(1, digits - 1 - math.floor(math.log10(100 * value)))
    return f"{100 * value:.{decimals}f}"
