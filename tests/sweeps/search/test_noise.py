"""The end of a search if no further setting could be significantly better."""

from typing import Any

import pytest

from sweeps.search.noise import first_at_noise
from sweeps.search.rules import rule_of
from tests.builders import baseline, make_sweep, trial

HONEST = {"val_ece": 0.02, "val_ece_calibrated_high": 0.03}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (HONEST, True),
        (HONEST | {"val_ece": 0.031}, False),
        ({"val_ece": 0.02}, False),
        (HONEST | {"val_error": 0.2}, False),
        (HONEST | {"val_nll": 0.5}, False),
        (HONEST | {"state": "stopped"}, False),
        (HONEST | {"role": "finalist"}, False),
    ],
    ids=["at noise", "above", "not known", "guard", "constraint", "stopped", "of a fresh seed"],
)
def test_a_trial_that_passes_and_is_as_honest_as_can_be_told(
    values: dict[str, Any], found: bool
) -> None:
    rule = rule_of(make_sweep(search={"constraints": {"val_nll": 0.4}}))
    records = [baseline(val_ece=0.05), trial(1, **values)]
    assert (first_at_noise(records, rule) is records[1]) is found


def test_without_the_baseline_nobody_knows_who_passes() -> None:
    rule = rule_of(make_sweep())
    honest = trial(1, **HONEST)
    assert first_at_noise([baseline(state="failed", history=[]), honest], rule) is None
    assert first_at_noise([baseline(**HONEST), honest], rule) is not honest
