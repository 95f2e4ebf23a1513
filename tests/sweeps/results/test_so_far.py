"""Reasons for the current best setting while a sweep runs."""

import pytest

from sweeps.results.so_far import overview, so_far
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from tests.builders import baseline, finalist, make_sweep, ranked, trial

LOW = trial(1, val_ece=0.02, val_error=0.105)
WRONG = trial(2, val_ece=0.0, val_error=0.9)


@pytest.mark.parametrize(
    ("records", "best", "why"),
    [
        ([], "none has finished yet", ""),
        ([baseline(state="running", history=[])], "none has finished yet", ""),
        ([baseline()], "cross_entropy, val_ece 0.1000", "nothing is below cross_entropy yet"),
        (
            [baseline(), LOW],
            "focal γ=1, val_ece 0.0200",
            "0.0800 below cross_entropy; error +0.0050, guard 0.01",
        ),
        (
            [baseline(), LOW, WRONG, trial(3, val_ece=0.5, val_error=0.9)],
            "focal γ=1, val_ece 0.0200",
            "0.0800 below cross_entropy; error +0.0050, guard 0.01; "
            "1 lower left out: error too high",
        ),
        (
            [LOW],
            "focal γ=1, val_ece 0.0200",
            "cross_entropy has not finished; error 0.1050, guard 0.01",
        ),
        (
            [baseline(), LOW, finalist(3, LOW, 1, val_ece=0.12)],
            "focal γ=1, val_ece 0.1200, mean of 1 fresh seed",
            "0.0200 above cross_entropy; error +0.0000, guard 0.01",
        ),
    ],
)
def test_the_best_and_what_speaks_for_it(records: list[TrialRecord], best: str, why: str) -> None:
    found = so_far(ranked(records))
    assert (found.best, found.why) == (best, why)
    assert str(found) == (f"{best} ({why})" if why else best)


def test_limits_that_all_break_are_named() -> None:
    records = [baseline(), LOW]
    found = so_far(ranked(records, search={"constraints": {"val_nll": 0.01}}))
    assert str(found) == "none of 2 settings passes (NLL too high)"


def test_of_several_objectives_it_is_on_the_front() -> None:
    records = [baseline(), LOW, trial(3, val_ece=0.05, val_error=0.08)]
    found = so_far(ranked(records, search={"objective": ["val_ece", "val_error"]}))
    assert found.why.endswith("first of 2 on the front of val_ece and val_error")


@pytest.mark.parametrize(
    ("objective", "shown"),
    [
        ("val_ece", "ECE 0.0300"),
        ("val_ece_scaled", "ECE with T 0.0300"),
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
