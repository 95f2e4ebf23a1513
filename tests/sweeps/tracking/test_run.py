"""Formatting of values in MLflow's columns, which are sorted as text."""

import math
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from sweeps.search.rules import rule_of
from sweeps.tracking.reader import _about
from sweeps.tracking.run import end_tags, hyperparameter_columns, sortable, sweep_parameters
from tests.builders import make_sweep, trial

NUMBERS = st.integers(0, 999_999) | st.floats(0, 999_999, allow_nan=False)


@given(NUMBERS)
def test_a_number_is_shown_to_four_digits(value: float) -> None:
    read = float(sortable(value))
    assert math.isclose(read, value, rel_tol=5e-4)
    assert (read == 0) == (value == 0)


@given(NUMBERS, NUMBERS)
def test_numbers_sort_as_text(one: float, other: float) -> None:
    first, second = sortable(one), sortable(other)
    assert (first < second) == (float(first) < float(second))


def test_what_is_no_number_stays_as_it_is() -> None:
    assert [sortable(v) for v in (True, "cosine", float("inf"))] == ["True", "cosine", "    inf"]


@given(st.lists(st.sampled_from(["loss", "lr", "seed", "guard", "gamma", "dataset"]), unique=True))
def test_no_two_hyperparameters_share_a_column(names: list[str]) -> None:
    columns = hyperparameter_columns(names)
    assert len(set(columns.values())) == len(names)
    assert columns.get("gamma", "gamma") == "gamma"


def test_a_sweeps_rule_is_read_from_its_run() -> None:
    limits = {"val_nll": 0.3, "val_auroc": {"below_baseline": 0.01}}
    sweep = make_sweep(
        search={"constraints": limits, "objective": "val_brier, val_nll", "guard": 0.02}
    )
    parameters = sweep_parameters(sweep, "digest")
    tags = {"calsweep.sweep": sweep.name}
    run = SimpleNamespace(
        data=SimpleNamespace(params=parameters, tags=tags), info=SimpleNamespace(run_id="r")
    )
    assert _about(run).rule == rule_of(sweep)
    assert _about(run).rule.constraints


def test_values_in_words_are_rounded_and_have_their_intervals() -> None:
    tags = end_tags(trial(1, val_ece=0.123456, temperature=1.2345), "val_ece")
    assert tags["val ECE"] == ".1235 [.0100, .2000]"
    assert (tags["val error"], tags["T"], tags["rank"]) == (".1000", "1.23", "finished")
    assert end_tags(trial(1, state="running"), "val_ece") == {}
