"""Argument checks."""

import math

import numpy as np
import pytest

from trainables.plugins.arguments import (
    check_choice,
    check_integer,
    check_number,
    describe_error,
    did_you_mean,
    first_line,
)


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.25), np.int64(1)])
def test_numbers_in_range(value: float) -> None:
    found = check_number("x", value, 0, 1)
    assert found == value
    assert type(found) is float


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-0.1, r"x must be in \[0, 1\], got -0.1"),
        (1.1, r"x must be in \[0, 1\], got 1.1"),
        (math.nan, "got nan"),
        (math.inf, "got inf"),
    ],
)
def test_numbers_out_of_range(value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_number("x", value, 0, 1)


def test_open_ends_are_excluded() -> None:
    with pytest.raises(ValueError, match=r"x must be in \(0, 1\), got 0"):
        check_number("x", 0, 0, 1, open_low=True, open_high=True)
    with pytest.raises(ValueError, match=r"x must be in \(0, 1\), got 1"):
        check_number("x", 1, 0, 1, open_low=True, open_high=True)


def test_unbounded_numbers_are_finite() -> None:
    assert check_number("x", -1e300) == -1e300
    with pytest.raises(ValueError, match=r"x must be in \(-inf, inf\), got -inf"):
        check_number("x", -math.inf)


@pytest.mark.parametrize("value", ["1", None, True, [1], 1j])
def test_not_numbers(value: object) -> None:
    with pytest.raises(TypeError, match="x must be a number, got"):
        check_number("x", value)  # type: ignore[arg-type]


def test_integers() -> None:
    assert check_integer("n", np.int32(3), low=1) == 3  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        check_integer("n", 0, low=1)
    for value in (1.0, True, "1"):
        with pytest.raises(TypeError, match="n must be an integer, got"):
            check_integer("n", value, low=1)  # type: ignore[arg-type]


def test_choices() -> None:
    assert check_choice("kind", "margin", ("margin", "entropy")) == "margin"
    with pytest.raises(ValueError, match=r"margin, entropy, got 'margn' \(did you mean 'margin'"):
        check_choice("kind", "margn", ("margin", "entropy"))
    with pytest.raises(TypeError, match="kind must be one of margin, entropy, got 1"):
        check_choice("kind", 1, ("margin", "entropy"))  # type: ignore[arg-type]


def test_did_you_mean() -> None:
    assert did_you_mean("focl", ["focal", "brier"]) == " (did you mean 'focal'?)"
    known = ["train_samples", "validation", "test_samples"]
    assert did_you_mean("val_samples", known) == " (did you mean 'validation'?)"
    assert did_you_mean("train_sample", known) == " (did you mean 'train_samples'?)"
    assert did_you_mean("xyz", ["focal", "brier"]) == ""


@pytest.mark.parametrize(
    ("said", "expected"),
    [("\n\n  CUDA is away\nmore", "CUDA is away"), ("one\ntwo", "one"), ("", ""), ("\n \n", "")],
)
def test_the_first_line_of_a_message_is_never_blank(said: str, expected: str) -> None:
    assert first_line(RuntimeError(said)) == first_line(said) == expected
    assert describe_error(RuntimeError(said)) == f"RuntimeError: {expected}".removesuffix(": ")
