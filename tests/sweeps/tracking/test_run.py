"""What MLflow's columns show of a trial."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.search.plan import Plan
from sweeps.search.rules import rule_of
from sweeps.tracking.reader import _about
from sweeps.tracking.run import (
    end_tags,
    hyperparameter_columns,
    readable,
    run_metrics,
    shown_names,
    sweep_parameters,
)
from tests.builders import make_sweep, trial
from trainables.metrics import METRIC_NAMES

NUMBERS = st.integers(0, 999_999) | st.floats(0, 999_999, allow_nan=False)


@given(NUMBERS)
def test_a_number_is_shown_to_four_digits(value: float) -> None:
    read = float(readable(value))
    assert math.isclose(read, value, rel_tol=5e-4)
    assert (read == 0) == (value == 0)


def test_a_value_is_what_a_user_types_to_find_it() -> None:
    values = (9.86812, 0.3333333, 3.0, 1e-7, 0.0, 40, True, "cosine", float("inf"))
    shown = ["9.868", "0.3333", "3", "0.0000001", "0", "40", "True", "cosine", "inf"]
    assert [readable(value) for value in values] == shown


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
    parameters = sweep_parameters(Plan(sweep), "digest")
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


def test_a_trial_is_described_in_one_line() -> None:
    stopped = trial(1, state="stopped", reason="val_nll too high\nafter epoch 1")
    text = end_tags(stopped, "val_ece")["mlflow.note.content"]
    assert text.startswith(
        "focal γ=1, search, stopped (val\\_nll too high after epoch 1): val error"
    )
    assert "\n" not in text and "T 1.50" in text


@pytest.mark.parametrize("classes", [2, 3, None])
def test_a_run_has_at_most_40_metrics_and_no_ends_of_intervals(classes: int | None) -> None:
    sweep = make_sweep(search={"objective": "val_smooth_ece", "constraints": {"val_mce": 0.3}})
    names = [
        f"{split}_{name}{scaled}"
        for name in METRIC_NAMES
        for split in ("val", "test")
        for scaled in ("", "_scaled")
    ]
    ends = [f"{name}_{end}" for name in names for end in ("low", "high", "calibrated")]
    entry = {"epoch": 1.0, "timestamp": 1.0, **dict.fromkeys(names + ends, 0.5), "a": 0.5}
    # A custom loop may report the metrics that are shown first at its end only.
    early = {"epoch": 0.0, "timestamp": 1.0, "a": 0.5, **{f"own{n}": 0.5 for n in range(50)}}
    entries = [early, {**early, **entry}]
    first = shown_names(Plan(sweep), classes)
    shown = {name for name, *_ in run_metrics(entries, {}, first)}
    assert len(shown) <= 40 and not shown & set(ends)
    assert {"val_smooth_ece", "val_mce", "val_error", "val_nll", "test_ece_scaled"} <= shown
    assert ("a" in shown) == (classes != 2)  # whose own three metrics leave no room here
    assert ("test_event_ece" in first) == (classes == 2)
