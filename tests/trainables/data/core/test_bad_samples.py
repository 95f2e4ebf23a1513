"""Unusable samples."""

import pytest

from trainables.data.core.bad_samples import BadSamples, settle


def test_no_samples_are_an_error_of_their_own() -> None:
    with pytest.raises(ValueError, match="there are no samples; at least one is needed"):
        settle([BadSamples(0, str)], "skip")


def test_at_least_one_sample_must_be_left() -> None:
    with pytest.raises(ValueError, match="row 0: no number"):
        settle([BadSamples(1, lambda row: f"row {row}", {0: "no number"})], "skip")
