"""Formatting of values, settings and runs."""

import math
from typing import Any

import pytest

from sweeps.messages.formatting import (
    counted,
    format_fraction,
    format_hyperparameters,
    format_rate,
    format_seconds,
    format_value,
    storage_option,
)
from tests.builders import baseline, trial


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.30000000000000004, "0.3"),
        (4.70001, "4.7"),
        (12345.678, "1.235e+04"),
        (3, "3"),
        ("margin", "margin"),
        (True, "True"),
    ],
)
def test_values_read_well(value: Any, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, ".1235"), (0.0, ".0000"), (1.0, "1.0000"), (math.nan, "–")]
)
def test_fractions_read_well(value: float, text: str) -> None:
    assert format_fraction(value) == text


@pytest.mark.parametrize(
    ("epochs", "seconds", "text"),
    [
        (64, 20.0, "3.2 epochs/s"),
        (1, 5.0, "12.0 epochs/min"),
        (2, 3600.0, "2.0 epochs/h"),
        (1, 7200.0, "0.5 epochs/h"),
        (0, 9.0, ""),
        (-1, 9.0, ""),
        (1, 0.0, ""),
    ],
)
def test_rates_read_well(epochs: int, seconds: float, text: str) -> None:
    assert format_rate(epochs, seconds) == text


def test_numbers_of_things_read_well() -> None:
    assert [counted(n, "fresh seed") for n in (0, 1, 2)] == [
        "0 fresh seeds",
        "1 fresh seed",
        "2 fresh seeds",
    ]


def test_names_of_settings_and_runs() -> None:
    assert format_hyperparameters({"gamma": 4.7, "lam": 0.1, "p": 2}) == "γ=4.7 λ=0.1 p=2"
    assert format_hyperparameters({}) == "–"
    assert baseline().label == "cross_entropy"
    assert baseline(role="finalist", seed=2).label == "cross_entropy seed=2"
    own = trial(1, "my.module:MyLoss", hyperparameters={"margin": 1.0})
    assert own.label == "MyLoss m=1"


def test_printed_commands_name_the_storage_and_quote_it() -> None:
    assert not storage_option("calsweep-store")
    assert storage_option("s3://bucket/a") == " --storage s3://bucket/a"
    assert storage_option("my sweeps") == " --storage 'my sweeps'"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.42, "0.42 s"), (42, "42 s"), (750, "12 min"), (12_600, "3.5 h")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown
