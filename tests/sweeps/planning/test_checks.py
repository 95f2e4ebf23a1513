"""Unknown names, options and values are all reported before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.planning.checks import check_sweep
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.search.rules import rule_of
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep


def losses(*sections: Any) -> dict[str, Any]:
    return {"losses": list(sections)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"losses": ["focall"]}, r"focall.*did you mean 'focal'"),
        ({"dataset": "digit"}, r"dataset: unknown dataset 'digit'.*did you mean 'digits'"),
        ({"dataset": {"name": "digits", "validaton": 0.2}}, r"did you mean 'validation'"),
        ({"model": "smal_cnn"}, r"model: unknown model 'smal_cnn'.*did you mean 'small_cnn'"),
        ({"search": {"objective": "val_eec"}}, r"search.objective = 'val_eec'.*'val_ece'"),
        ({"search": {"objective": "test_ece"}}, r"search.objective = 'test_ece' is not allowed"),
        ({"search": {"objective": "val_accuracy"}}, r"'val_accuracy' is not allowed"),
        (
            {"selection": {"seeds": "auto"}, "search": {"objective": "val_smooth_ece"}},
            r"seeds = auto is not allowed with search.objective = 'val_smooth_ece', which gets no "
            r"verdict; allowed: one of val_ece, .*val_error_scaled, or a number of seeds",
        ),
        ({"scheduler": {"name": "asah"}}, r"did you mean 'asha'\?\); allowed: asha, none"),
        ({"search": {"sampler": "tpee"}}, r"did you mean 'tpe'\?\); allowed: guided, tpe, random"),
        ({"scheduler": {"metric": "val_auroc"}}, r"scheduler.metric = 'val_auroc'.*val_nll"),
        (
            {"losses": [{"name": "focal", "hyperparameters": {"lam": 1.0}}]},
            r"focal: 'lam' is not a hyperparameter of it; allowed: gamma",
        ),
        (
            {"losses": [{"name": "focal", "hyperparameters": {"gamma": 1e5}}]},
            r"^losses: loss 'focal': gamma must be in \[0, 100\], got 100000\.0$",
        ),
        (
            {"losses": [{"name": "focal", "space": {"gamma": {"low": 0.0, "high": 1e5}}}]},
            r"^losses: loss 'focal': gamma must be in \[0, 100\], got 100000\.0$",
        ),
        (
            {"losses": [{"name": "focal", "hyperparameters": {"gamma": -1.0}}]},
            r"losses: .*gamma.*-1",
        ),
        (
            {"losses": [{"name": "focal", "space": {"gamma": {"low": -2.0, "high": 3.0}}}]},
            r"losses: .*gamma.*-2",
        ),
        (
            {
                "losses": [
                    {
                        "name": "focal",
                        "space": {"gamma": {"low": 1.0, "high": 3.0}},
                        "hyperparameters": {"gamma": 2.0},
                    }
                ]
            },
            r"gamma has a range and a value",
        ),
        ({"losses": ["nowhere.at_all:Loss"]}, r"losses: .*nowhere"),
    ],
)
def test_names_and_values_that_do_not_exist(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_sweep(make_sweep(**{"losses": ["focal"], **change}))


def test_a_range_of_an_integer_hyperparameter_ends_in_whole_numbers() -> None:
    uneven = losses({"name": "cals_alm", "space": {"period": {"low": 0.5, "high": 2}}})
    with pytest.raises(UserError, match=r"losses: cals_alm: period is an integer, its range goes"):
        check_sweep(make_sweep(**uneven))


def test_a_hyperparameter_without_default_is_checked_with_the_values_of_its_range() -> None:
    loss = "torch.nn:ConstantPad1d"  # has two arguments without defaults
    space = {"padding": {"choices": [0, 1]}, "value": {"low": 1, "high": 2}}
    check_sweep(make_sweep(**losses({"name": loss, "space": space})))
    with pytest.raises(UserError, match="missing 1 required positional argument: 'value'"):
        check_sweep(make_sweep(**losses({"name": loss, "space": {"padding": {"choices": [0, 1]}}})))


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"losses": ["supcon"]}, r"losses: supcon trains an encoder.*give it as encoder\.loss"),
        (
            {"losses": ["focal"], "encoder": {"loss": {"name": "supcom"}}},
            r"encoder\.loss: .*did you mean 'supcon'",
        ),
        (
            {
                "losses": ["focal"],
                "encoder": {"loss": {"name": "supcon", "hyperparameters": {"temperature": -1.0}}},
            },
            r"encoder\.loss: .*temperature",
        ),
        (
            {
                "losses": ["focal"],
                "encoder": {
                    "loss": {"name": "supcon", "space": {"temperature": {"choices": [0.1]}}}
                },
            },
            r"encoder.*loss\.space is not allowed",
        ),
    ],
)
def test_allowed_encoder_losses(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_sweep(make_sweep(**sections))


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"val_nl": 0.3}, r"search.constraints = 'val_nl' is not .*did you mean 'val_nll'"),
        (
            {"val_auroc": 0.9},
            r"search.constraints.val_auroc bounds it on the wrong side, as more is better; "
            r"allowed: at_least, below_baseline",
        ),
        (
            {"val_nll_scaled": {"below_baseline": 0.1}},
            r"search.constraints.val_nll_scaled .*as less is better; allowed: at_most, above_base",
        ),
    ],
)
def test_constraints_are_on_metrics_and_limit_the_worse_side(
    constraints: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_sweep(make_sweep(search={"constraints": constraints}))


def test_constraints_may_be_of_every_metric() -> None:
    given = {"val_accuracy": {"at_least": 0.9}, "val_ece_scaled": {"above_baseline": 0.01}}
    check_sweep(make_sweep(search={"constraints": given}))


def test_several_objectives() -> None:
    check_sweep(make_sweep(search={"objective": ["val_ece", "val_error"]}))
    for objective, message in (
        (["val_ece", "val_eror"], r"search.objective = 'val_eror' .*did you mean 'val_error'"),
        ("val_ece, val_ece", r"search.objective = 'val_ece, val_ece' names one twice"),
        ([], r"search.objective = .*string"),
        (["val_ece", 3], r"search.objective = .*string"),
    ):
        with pytest.raises(UserError, match=message):
            check_sweep(make_sweep(search={"objective": objective}))


OWN_METRICS = """
def cost(probs, labels):
    return float((probs.argmax(dim=1) - labels).abs().double().mean())

def ece(probs, labels):
    return 0.0

def short(probs):
    return 0.0

def pair(probs, labels):
    return probs
"""


def test_a_custom_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked_metrics.py").write_text(OWN_METRICS)

    def aiming(objective: str, **search: Any) -> SweepFile:
        return make_sweep(search={"objective": objective, **search})

    scaled = aiming("checked_metrics:cost_scaled", constraints={"val_cost": 2})
    check_sweep(scaled)
    assert scaled.objective == rule_of(scaled).objective == "val_cost_scaled"
    for objective, message in (
        ("checked_metrics:csot", "search.objective 'checked_metrics:csot' cannot be imported"),
        ("checked_metrics:ece", "is called as a metric of calsweep, ece; give it another name"),
        ("nowhere_metrics:cost", "cannot be imported: .*nowhere_metrics"),
    ):
        with pytest.raises(UserError, match=message):
            check_sweep(aiming(objective))
    data = load_data(scaled)
    fit_to_data(scaled, data)
    for name in ("short", "pair"):
        with pytest.raises(UserError, match=r"search.objective '.*' failed on random .*\(N, 10\)"):
            fit_to_data(aiming(f"checked_metrics:{name}"), data)


def test_all_faults_are_reported_at_once() -> None:
    sweep = make_sweep(
        dataset={"name": "digits", "validaton": 0.2},
        model="smal_cnn",
        losses=["focall", "brier"],
        search={"objective": "val_eec"},
    )
    with pytest.raises(UserError) as raised:
        check_sweep(sweep)
    assert [line.split()[0] for line in str(raised.value).splitlines()] == [
        "dataset:",
        "model:",
        "losses:",
        "search.objective",
    ]


def test_both_ends_of_a_range_are_tried_before_any_trial_is() -> None:
    check_sweep(make_sweep(**losses({"name": "focal", "space": {"gamma": {"low": 0, "high": 9}}})))
    beyond = {"name": "r_aurc", "space": {"lam": {"low": 0.5, "high": 1.5}}}
    with pytest.raises(UserError, match=r"losses: .*r_aurc.*lam must be in \[0, 1\], got 1\.5"):
        check_sweep(make_sweep(**losses(beyond)))
