"""Argument checks, with messages that name the argument, the value and what is allowed.

They do not use pydantic, which takes half a second to import.
"""

import difflib
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from numbers import Integral, Real
from typing import Any, Final

_SELF_EXPLAINING = (ImportError, AttributeError, NameError, SyntaxError, ValueError, TypeError)


@dataclass(frozen=True)
class Range:
    """Allowed range of an option, as in ``Annotated[float, Range(0, 1, open_high=True)]``."""

    low: float
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = self.low < value if self.open_low else self.low <= value
        return above and (value < self.high if self.open_high else value <= self.high)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"above {self.low}" if self.open_low else f"of at least {self.low}"
        return f"in {self.interval}"

    @property
    def interval(self) -> str:
        """The range as in mathematics, such as ``[0, 1)``."""
        opening = "(" if self.open_low or self.low == -math.inf else "["
        closing = ")" if self.open_high or self.high == math.inf else "]"
        return f"{opening}{self.low:.12g}, {self.high:.12g}{closing}"

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """The same limits for pydantic, which looks for this method."""
        limits = {"gt" if self.open_low else "ge": self.low}
        if self.high != math.inf:
            limits["lt" if self.open_high else "le"] = self.high
        return {**handler(source), **limits}


def is_number(text: str | bytes) -> bool:
    """Whether a text is a number to Python, such as 1e-3 or nan."""
    try:
        float(text)
    except ValueError:
        return False
    return True


_OTHER_WORDS: Final = {
    "val_acc": "val_error",
    "val_accuracy": "val_error",
    "val_loss": "val_nll",
    "val_logloss": "val_nll",
}


def did_you_mean(name: str, known: Collection[str]) -> str:
    """``" (did you mean 'x'?)"`` for the closest known name, or an empty string.

    Names that begin with the first word come first: ``val_samples`` means ``validation``, although
    ``train_samples`` has more letters in common.
    """
    if (usual := _OTHER_WORDS.get(name)) in known:
        return f" (did you mean {usual!r}?)"
    word = name.partition("_")[0]
    alike = [each for each in known if len(word) > 2 and each.startswith(word)]
    shortest = min(alike, key=len, default="")
    of_one = [shortest] if alike and all(each.startswith(shortest) for each in alike) else []
    close = difflib.get_close_matches(name, alike, n=1) or of_one
    close = close or difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def few(values: Collection[object], most: int = 6) -> str:
    """``a, b and 7 more``: the first of many values."""
    more = f" and {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(map(str, islice(values, most))) + more


def first_line(said: object) -> str:
    """The first line of a text or of an error's message that is not blank; empty if all are."""
    return next((line.strip() for line in str(said).splitlines() if line.strip()), "")


def describe_error(error: BaseException) -> str:
    """An error of user code on one line, with its type if that adds information."""
    text = first_line(error)
    known = text and isinstance(error, _SELF_EXPLAINING)
    return text if known else f"{type(error).__name__}: {text}".removesuffix(": ")


def check_number(
    name: str,
    value: float,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """``value`` as a float; ``TypeError`` if no number, ``ValueError`` if out of range."""
    return check_in(name, value, Range(low, high, open_low, open_high))


def check_in(name: str, value: float, allowed: Range) -> float:
    """Like :func:`check_number`, with the range as an object."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value) or value not in allowed:
        raise ValueError(f"{name} must be in {allowed.interval}, got {value!r}")
    return float(value)


def check_integer(name: str, value: int, low: int) -> int:
    """``value``; ``TypeError`` if it is no integer, ``ValueError`` if it is below ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value!r}")
    return int(value)


def check_choice(name: str, value: str, known: Collection[str]) -> str:
    """``value``; ``TypeError`` if it is no string, ``ValueError`` if it is not a known one."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    if value not in known:
        raise ValueError(
            f"{name} must be one of {', '.join(known)}, got {value!r}{did_you_mean(value, known)}"
        )
    return value
