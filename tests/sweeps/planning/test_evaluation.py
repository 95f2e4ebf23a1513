"""``evaluation``: sets on which finalists are evaluated besides the test split."""

from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.planning.checks import check_sweep
from sweeps.planning.data import load_data
from sweeps.planning.portability import check_reachable
from tests.builders import make_sweep


def test_sets_are_loaded_with_the_data() -> None:
    evaluation = {"shift": ["digits"], "ood": [{"name": "digits", "train_samples": 100}]}
    sweep = make_sweep(evaluation=evaluation)
    check_sweep(sweep)
    found = load_data(sweep).evaluation_sets
    assert [(each.kind, each.name) for each in found] == [("shift", "digits"), ("ood", "digits")]


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        ({"shift": ["cifar10_d"]}, r"evaluation.shift.0: unknown dataset 'cifar10_d'"),
        ({"ood": [{"name": "svhn"}]}, r"evaluation.ood.0: dataset 'svhn': option 'root' is requ"),
        ({"ood": ["digits", "digits"]}, "evaluation: ood: digits is named twice"),
        ({"shifts": []}, r"unknown key 'shifts' in evaluation.*did you mean 'shift'"),
    ],
)
def test_what_is_wrong_is_reported(evaluation: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_sweep(make_sweep(evaluation=evaluation))


def test_data_that_do_not_fit_are_reported_by_their_key(tmp_path: Path) -> None:
    sweep = make_sweep(evaluation={"shift": [{"name": "cifar10_c", "root": str(tmp_path)}]})
    with pytest.raises(UserError, match=r"evaluation.shift.0: \S+/labels.npy does not exist"):
        load_data(sweep)


def test_a_cluster_must_reach_them() -> None:
    sweep = make_sweep(evaluation={"ood": [{"name": "svhn", "root": "data"}]})
    with pytest.raises(UserError, match=r"evaluation.ood.0.root = 'data' is relative"):
        check_reachable("s3://bucket/calsweep", sweep)
