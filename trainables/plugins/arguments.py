"""Argument checks, with messages that name the argument, the value and what is allowed.

They do not use pydantic, which takes half a second to import.
"""

import difflib
import math
from collections.abc import Collection
from itertools import islice
from numbers import Integral, Real
from typing import Final, NamedTuple

_SELF_EXPLAINING = (ImportError, AttributeError, NameError, SyntaxError, ValueError, TypeError)


class Bounds(NamedTuple):
    """Allowed range of an argument, from ``low`` to ``high``."""

    low: float
    high: float
    open_low: bool = False
    """Whether ``low`` is excluded."""

    def __str__(self) -> str:
        return f"{'(' if self.open_low else '['}{self.low:g}, {self.high:g}]"


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
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    above = low < value if open_low else low <= value
    below = value < high if open_high else value <= high
    if not (math.isfinite(value) and above and below):
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if open_high or high == math.inf else "]"
        raise ValueError(f"{name} must be in {left}{low:g}, {high:g}{right}, got {value!r}")
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
