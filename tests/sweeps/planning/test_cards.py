"""Estimated resources on a GPU that this machine does not have."""

from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.planning.cards import CARDS, card_facts
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.search.plan import Plan
from tests.builders import make_sweep


def facts(card: str, **sections: Any) -> dict[str, str]:
    sweep = make_sweep(dataset={"name": "digits", "train_samples": 200}, **sections)
    dataset = load_data(sweep)
    return card_facts(card, Plan(fit_to_data(sweep, dataset)), dataset)


def test_small_trials_share_a_card() -> None:
    found = facts("H100", training={"epochs": 5})
    assert found["on h100"].startswith("bfloat16; 8 trials share it, with about 0.")
    assert "s an epoch" in found["time there"]


def test_old_cards_compute_in_float32() -> None:
    assert facts("t4")["on t4"].startswith("float32")


def test_a_trial_that_does_not_fit_is_reported() -> None:
    large = {"batch_size": 200, "eval_batch_size": 100_000}
    found = facts("t4", model={"name": "small_cnn", "width": 256}, training=large)["on t4"]
    assert "one trial at a time" in found
    assert found.endswith("of 16 GB each, which is more than it has")


def test_an_unknown_card_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UserError, match=f"--gpu h1000: unknown card; allowed: .*{list(CARDS)[-1]}"):
        facts("h1000")
