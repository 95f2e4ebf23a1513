"""The smallest difference in ECE that a split can detect."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables import metrics as M


def test_by_hand() -> None:
    expected = 1.4 * (1.959964 + 0.841621) * math.sqrt(0.1 / 1000)
    assert M.detectable_difference(1000) == pytest.approx(expected, rel=1e-6)
    expected = 1.4 * (1.644854 + 1.281552) * math.sqrt(0.05 / 400)
    found = M.detectable_difference(400, 0.2, disagreement=0.05, confidence=0.9, power=0.9)
    assert found == pytest.approx(expected, rel=1e-6)


@given(st.integers(500, 10**6), st.floats(0.51, 0.99))
def test_the_chance_is_the_inverse(num_samples: int, power: float) -> None:
    smallest = M.detectable_difference(num_samples, power=power)
    assert M.chance_of_detection(smallest, num_samples) == pytest.approx(power)
    assert M.chance_of_detection(0.0, num_samples) == pytest.approx(0.025)


@given(st.integers(1, 10**6), st.floats(0.001, 0.999), st.floats(0.51, 0.99), st.integers(1, 50))
def test_more_samples_detect_smaller_differences(
    num_samples: int, error: float, power: float, candidates: int
) -> None:
    value = M.detectable_difference(num_samples, error, power=power, candidates=candidates)
    assert 0 < value <= 1
    more = M.detectable_difference(4 * num_samples, error, power=power, candidates=candidates)
    assert more == pytest.approx(value / 2) or value == 1
    picked = M.detectable_difference(num_samples, error, power=power, candidates=candidates + 1)
    assert picked >= value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
        ({"error": 1.0}, r"error must be in \(0, 1\), got 1.0"),
        ({"disagreement": math.nan}, "disagreement"),
        ({"confidence": 95}, r"confidence must be in \(0, 1\), got 95"),
        ({"power": 0.5}, r"power must be in \(0.5, 1\), got 0.5"),
        ({"candidates": 0}, "candidates must be an integer of at least 1, got 0"),
    ],
)
def test_wrong_arguments(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        M.detectable_difference(**{"num_samples": 100, **arguments})  # type: ignore[arg-type]
