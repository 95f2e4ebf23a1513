"""The best setting of several sweeps, and the sweep file that trains only it."""

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from sweeps.errors import UserError
from sweeps.planning.checks import check_sweep
from sweeps.results.best import Advice, BestSetting, TrackedSweep, as_sweep_file, best_settings
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.search.rules import Rule
from sweeps.search.space import SearchSpace
from sweeps.search.stopping import make_stopper
from sweeps.sweep_file.loading import parse_sweep, to_yaml
from sweeps.terminal.answers import best_table, render_best
from tests.builders import baseline, finalist, make_sweep, shown, trial
from trainables.contract.setting import BASELINE, Setting


def tracked(records: list[TrialRecord], objective: str = "val_ece", **values: Any) -> TrackedSweep:
    known = {
        "name": "a",
        "dataset": "digits",
        "data": f"of {values.get('dataset', 'digits')}",
        "model": "small_cnn",
        "model_options": "",
        "verdict": None,
        "parent_id": "p",
        "rule": Rule(objective, 0.01),
        **values,
    }
    return TrackedSweep(
        records=records, run_ids={r.number: f"r{r.number}" for r in records}, **known
    )


def test_the_best_of_several_sweeps() -> None:
    lucky = tracked([baseline(val_ece=0.001)], name="lucky")
    again = finalist(1, baseline(), 1, val_ece=0.03)
    sure = tracked([baseline(val_ece=0.02), again], name="sure", verdict="not supported")
    other = tracked([baseline(val_ece=0.5)], name="other", dataset="cifar10")
    hopeless = tracked([baseline(state="failed")], name="hopeless", model="resnet18_cifar")
    found = best_settings([lucky, sure, other, hopeless])
    assert [(entry.dataset, entry.sweep) for entry in found] == [
        ("cifar10", "other"),
        ("digits", "sure"),
    ]
    assert found[1].seeds == 1
    assert found[1].val["ece"] == 0.03
    assert [entry.best.verdict for entry in found] == [None, "not supported"]
    text = shown(best_table(found))
    for part in ("cifar10", ".5000", ".0100–.2000", "1.50", "not"):
        assert part in text


def test_what_is_recommended_is_named_beside_the_best_setting() -> None:
    records = [baseline(val_ece=0.05), trial(1, "focal", {"gamma": 2.0}, val_ece=0.02)]
    advice = Advice(BASELINE, "cross-entropy with a temperature")
    (entry,) = best_settings([tracked(records, verdict="worse", recommended=advice)])
    assert (entry.loss, entry.val["ece"], entry.trial) == ("cross_entropy", 0.05, 0)
    assert entry.recommended == "cross-entropy with a temperature"
    assert entry.best == BestSetting("focal", {"gamma": 2.0}, 0, 0.02, "worse")
    text = " ".join(shown(best_table([entry]), width=80).split())
    for part in ("cross_entropy", "focal", "γ=2", "worse", ".0500", "val .0200"):
        assert part in text
    (alone,) = best_settings([tracked(records)])  # before the end
    assert alone.loss == "focal" and "the same" in shown(best_table([alone]))


def test_calibration_errors_are_shown_with_their_calibrated_bound() -> None:
    perfect = {"val_ece_calibrated": 0.0123, "val_ece_calibrated_high": 0.0321}
    found = best_settings([tracked([baseline(val_ece=0.02, **perfect)])])
    assert found[0].val["ece_calibrated"] == 0.0123
    text = shown(best_table(found))
    assert "≤.0321" in text
    assert "a perfectly calibrated model would show" in " ".join(text.split())


def test_the_number_of_groups_is_below_their_interval() -> None:
    known = {"val_ece_low": 0.01, "val_ece_high": 0.2, "val_groups": 41.0, "test_groups": 57.0}
    found = best_settings([tracked([baseline(val_ece=0.02, **known)])])
    assert (found[0].val["groups"], found[0].test["groups"]) == (41, 57)
    text = shown(best_table(found))
    assert re.search(r"\.0100–\.2000.*\n.*41 groups +57 groups", text)
    assert "interval, the number of groups that it is over" in " ".join(text.split())
    assert "groups" not in shown(best_table(best_settings([tracked([baseline(val_ece=0.02)])])))


def test_a_line_of_80_characters_is_enough() -> None:
    known = {"val_ece_low": 0.01, "val_ece_high": 0.2, "val_ece_calibrated": 0.0123}
    many = {**known, "val_ece_calibrated_high": 0.0321, "test_ece_low": 0.01, "test_ece_high": 0.2}
    found = best_settings(
        [tracked([baseline(val_ece=0.02, **many)], model="a_long_name", verdict="not supported")]
    )
    text = shown(best_table(found), width=80)
    words = ("cross_entropy", "a_long_name", ".0100–.2000", "≤.0321", "calibrated", "shown")
    for word in words:
        assert word in text


def test_scaled_objectives_are_shown_scaled() -> None:
    scaled = {"val_ece_scaled": 0.0111, "val_ece_scaled_low": 0.0044, "val_ece_scaled_high": 0.0222}
    aimed = tracked([baseline(val_ece=0.0666, **scaled)], objective="val_ece_scaled")
    found = best_settings([aimed])
    assert found[0].val["ece_scaled_high"] == 0.0222
    text = shown(best_table(found))
    for part in ("ECE with T", ".0111", ".0044–.0222"):
        assert part in text
    assert ".0666" not in text


def test_only_what_is_comparable_is_ranked() -> None:
    low = [baseline(val_ece=0.01, val_nll=0.5)]
    high = [baseline(val_ece=0.02, val_nll=0.4)]
    found = best_settings(
        [
            tracked(low, name="one", data="aaaaaaaaaa"),
            tracked(high, name="worse", data="aaaaaaaaaa"),
            tracked(high, name="other_split", data="bbbbbbbbbb"),
            tracked(high, name="wide", data="aaaaaaaaaa", model_options=",width=64"),
            tracked(high, name="by_nll", data="aaaaaaaaaa", objective="val_nll"),
            tracked(low, name="elsewhere", dataset="cifar10", model="resnet18_cifar"),
        ]
    )
    assert [(e.dataset, e.model, e.objective, e.sweep) for e in found] == [
        ("cifar10", "resnet18_cifar", "val_ece", "elsewhere"),
        ("digits-aaaaaa", "small_cnn", "val_ece", "one"),
        ("digits-aaaaaa", "small_cnn", "val_nll", "by_nll"),
        ("digits-aaaaaa", "small_cnn,width=64", "val_ece", "wide"),
        ("digits-bbbbbb", "small_cnn", "val_ece", "other_split"),
    ]
    with pytest.raises(UserError, match="choose one by dataset and model and objective") as e:
        render_best(found, "yaml", str)
    assert "  dataset digits-aaaaaa, model small_cnn, objective val_nll" in str(e.value)


def test_the_same_data_by_two_names_are_ranked_together() -> None:
    first = tracked([baseline(val_ece=0.02)], name="first", dataset="parquet:a", data="d")
    second = tracked([baseline(val_ece=0.01)], name="second", dataset="parquet:b", data="d")
    (entry,) = best_settings([first, second])
    assert (entry.sweep, entry.dataset) == ("second", "parquet:b")


@pytest.mark.parametrize("name", ["shown", "x" * 100])
@pytest.mark.parametrize(
    ("loss", "hyperparameters"),
    [
        ("cross_entropy", {}),
        ("focal", {"gamma": 0.1 + 0.2}),
        ("mbls", {"margin": 10.0, "lam": 1e-05}),
        ("r_aurc", {"lam": 0.5, "epsilon": 0.05, "confidence": "margin"}),
    ],
)
def test_the_best_setting_as_a_sweep_file_trains_just_that(
    loss: str, hyperparameters: dict[str, Any], name: str
) -> None:
    tuned = make_sweep(name=name, losses=["focal", "mbls", "r_aurc"], search={"seed": 4})
    file = as_sweep_file(Setting(loss, hyperparameters), tuned.model_dump(mode="json"))
    sweep = parse_sweep(YAML(typ="safe").load(to_yaml(file)))
    check_sweep(sweep)
    expected = [BASELINE, Setting(loss, hyperparameters)]
    assert SearchSpace(sweep.losses).initial_settings(10) == expected[: sweep.search.trials]
    assert sweep.search.trials == (1 if loss == "cross_entropy" else 2)
    assert sweep.search.seed == 4
    assert sweep.training == tuned.training
    assert make_stopper(Plan(sweep)).rungs == ()
    assert sweep.selection.seeds == 0
