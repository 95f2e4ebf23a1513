"""The end of a search if no further setting could be significantly better."""

from typing import Any

import pytest

from sweeps.search.noise import first_at_noise
from sweeps.search.rules import rule_of
from tests.builders import baseline, make_sweep, trial

CALIBRATED = {"val_ece": 0.02, "val_ece_calibrated_high": 0.03}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (CALIBRATED, True),
        (CALIBRATED | {"val_ece": 0.031}, False),
        ({"val_ece": 0.02}, False),
        (CALIBRATED | {"val_error": 0.2}, False),
        (CALIBRATED | {"val_nll": 0.5}, False),
        (CALIBRATED | {"state": "stopped"}, False),
        (CALIBRATED | {"role": "finalist"}, False),
    ],
    ids=["at noise", "above", "not known", "guard", "constraint", "stopped", "of a fresh seed"],
)
def test_the_search_ends_with_a_trial_within_guard_and_noise(
    values: dict[str, Any], found: bool
) -> None:
    rule = rule_of(make_sweep(search={"constraints": {"val_nll": 0.4}}))
    records = [baseline(val_ece=0.05), trial(1, **values)]
    assert (first_at_noise(records, rule) is records[1]) is found


def test_without_the_baseline_the_search_does_not_end() -> None:
    rule = rule_of(make_sweep())
    calibrated = trial(1, **CALIBRATED)
    assert first_at_noise([baseline(state="failed", history=[]), calibrated], rule) is None
    assert first_at_noise([baseline(**CALIBRATED), calibrated], rule) is not calibrated
