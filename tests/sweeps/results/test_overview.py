"""The one-line overview of a sweep."""

import pytest

from sweeps.results.overview import overview
from sweeps.search.plan import Plan
from tests.builders import baseline, make_sweep, ranked


@pytest.mark.parametrize(
    ("objective", "shown"),
    [
        ("val_ece", "ECE 0.0300"),
        ("val_ece_scaled", "ECE scaled 0.0300"),
        ("val_error", "error 0.0300"),
    ],
)
def test_the_value_is_named_after_the_objective(objective: str, shown: str) -> None:
    search = {"objective": objective}
    ranking = ranked([baseline(**{objective: 0.03})], search=search)
    assert (
        overview(Plan(make_sweep(search=search)), ranking, "finished").best
        == f"cross_entropy, {shown}"
    )
