"""What people read: names, the plan, the leaderboard, the reasons, the lists of what there is."""

import io
import math
from typing import Any

import pytest
from rich.console import Console
from ruamel.yaml import YAML

from sweeps.formatting import format_fraction, format_hyperparameters, format_value, run_name
from sweeps.planning.checks import check_sweep
from sweeps.planning.plan import describe_range, plan_facts, plan_tables
from sweeps.results.best import as_sweep_file, best_settings, best_table
from sweeps.results.leaderboard import (
    explain_choice,
    failure_summary,
    leaderboard,
    leaderboard_table,
    selection_summary,
)
from sweeps.search.record import TrialRecord
from sweeps.search.space import initial_settings
from sweeps.sweep_file.loading import parse_sweep, to_yaml
from sweeps.sweep_file.schema import SweepFile
from sweeps.terminal.catalogue import datasets_table, losses_markdown, losses_rows, models_table
from sweeps.tracking.reader import TrackedSweep
from trainables.data import available_datasets
from trainables.losses import available_losses
from trainables.models import available_models


def make_sweep(**sections: Any) -> SweepFile:
    return parse_sweep(
        {
            "name": "shown",
            "dataset": "digits",
            "model": "small_cnn",
            "losses": ["focal", "mbls"],
            "training": {"epochs": 9},
            **sections,
        }
    )


def trial(number: int, loss: str, epochs: int = 9, **values: Any) -> TrialRecord:
    metrics = {
        "epoch": epochs,
        **{f"{split}_{name}": 0.1 for split in ("val", "test") for name in ("error", "ece", "nll")},
        **{"val_ece_low": 0.01, "val_ece_high": 0.2, "test_ece_low": 0.0, "test_ece_high": 0.1},
        **{"test_ece_scaled": 0.05, "temperature": 1.5},
    }
    metrics |= {name: values.pop(name) for name in list(values) if name in metrics}
    made = TrialRecord(number, "search", loss, {}, 0, 0.0, "finished", history=[metrics])
    for name, value in values.items():
        setattr(made, name, value)
    return made


def baseline(**values: Any) -> TrialRecord:
    return trial(0, "cross_entropy", **{"role": "baseline", **values})


def shown(*renderables: Any, width: int = 100) -> str:
    text = io.StringIO()
    Console(width=width, file=text).print(*renderables, sep="\n")
    return text.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.30000000000000004, "0.3"),
        (4.70001, "4.7"),
        (12345.678, "1.235e+04"),
        (3, "3"),
        ("margin", "margin"),
        (True, "True"),
    ],
)
def test_values_read_well(value: Any, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.12345, ".1235"), (0.0, ".0000"), (1.0, "1.0000"), (math.nan, "–")]
)
def test_fractions_read_well(value: float, text: str) -> None:
    assert format_fraction(value) == text


def test_names_of_settings_and_runs() -> None:
    assert format_hyperparameters({"gamma": 4.7, "lam": 0.1, "p": 2}) == "γ=4.7 λ=0.1 p=2"
    assert format_hyperparameters({}) == "–"
    assert run_name(baseline()) == "cross_entropy"
    assert run_name(baseline(role="finalist", seed=2)) == "cross_entropy seed=2"
    own = trial(1, "my.module:MyLoss", hyperparameters={"margin": 1.0})
    assert run_name(own) == "MyLoss m=1"


def rows_by_loss(records: list[TrialRecord], **sections: Any) -> dict[str, dict[str, Any]]:
    return {row["loss"]: row for row in leaderboard(records, make_sweep(**sections))}


def test_the_leaderboard_has_one_row_per_loss_however_its_trials_ended() -> None:
    records = [
        baseline(val_ece=0.05),
        trial(1, "focal", val_ece=0.03, hyperparameters={"gamma": 3.0}),
        trial(2, "focal", val_ece=0.02, hyperparameters={"gamma": 5.0}),
        trial(3, "focal", epochs=1, state="stopped", val_ece=0.0),
        trial(4, "mbls", epochs=1, state="stopped", hyperparameters={"margin": 1.0}),
        trial(5, "mbls", epochs=3, state="stopped", hyperparameters={"margin": 2.0}),
        trial(6, "brier", state="failed", reason="diverged: logits", history=[]),
        trial(7, "ecp", val_ece=0.0, val_error=0.9),
    ]
    rows = rows_by_loss(records)
    assert list(rows) == ["focal", "cross_entropy", "ecp", "mbls", "brier"]
    assert {loss: row["note"] for loss, row in rows.items()} == {
        "focal": "chosen",
        "cross_entropy": "baseline",
        "ecp": "error > baseline + 0.01",
        "mbls": "stopped at epoch 3",
        "brier": "failed: diverged: logits",
    }
    assert rows["focal"]["hyperparameters"] == {"gamma": 5.0}
    assert rows["focal"]["trials"] == {"finished": 2, "stopped": 1}
    assert rows["focal"]["val_ece"] == 0.02
    assert rows["mbls"]["hyperparameters"] == {"margin": 2.0}
    assert math.isnan(rows["brier"]["test_ece"])
    text = shown(leaderboard_table(list(rows.values())), width=80)
    assert max(map(len, text.splitlines())) <= 80
    for part in ("focal", "γ=5", ".0200", "chosen", "baseline", "1.50", "–"):
        assert part in text


def test_finalists_are_shown_by_the_mean_over_new_seeds() -> None:
    focal: dict[str, Any] = {"loss": "focal", "hyperparameters": {"gamma": 3.0}}
    records = [
        baseline(val_ece=0.05),
        trial(1, val_ece=0.01, test_ece=0.5, **focal),
        trial(2, val_ece=0.02, test_ece=0.1, role="finalist", seed=1, **focal),
        trial(3, val_ece=0.04, test_ece=0.2, role="finalist", seed=2, **focal),
    ]
    row = rows_by_loss(records)["focal"]
    assert (row["val_ece"], row["test_ece"]) == (pytest.approx(0.03), pytest.approx(0.15))
    assert row["seeds"] == 2
    first, *_, last = explain_choice(records, make_sweep())
    assert "Chosen: focal γ=3 – the lowest val_ece, 0.0300 (mean over 2 new seeds)" in first
    assert "at most 0.01 above cross-entropy's" in first
    assert "ECE 0.1500 [0.0000, 0.1000], after temperature scaling 0.0500" in last


@pytest.mark.parametrize(
    ("interval", "told"), [((0.01, 0.2), True), ((0.04, 0.045), False), ((0.3, 0.4), False)]
)
def test_overlapping_intervals_are_told(interval: tuple[float, float], told: bool) -> None:
    records = [
        baseline(val_ece=0.05, val_ece_low=0.1, val_ece_high=0.15),
        trial(1, "focal", val_ece=0.03, val_ece_low=interval[0], val_ece_high=interval[1]),
    ]
    lines = explain_choice(records, make_sweep())
    assert "The cross-entropy baseline has 0.0500, validation error 0.1000" in lines[1]
    assert any("intervals overlap" in line for line in lines) is told


def test_a_chosen_baseline_is_not_compared_with_itself() -> None:
    records = [baseline(val_ece=0.01), trial(1, "focal", val_ece=0.03)]
    lines = explain_choice(records, make_sweep())
    assert len(lines) == 2
    assert "Chosen: cross_entropy" in lines[0]
    assert rows_by_loss(records)["cross_entropy"]["note"] == "chosen"


def test_without_a_baseline_the_lowest_error_guards_and_that_is_said() -> None:
    failed = baseline(state="failed", reason="diverged", history=[])
    constant = trial(1, "ecp", val_ece=0.0, val_error=0.9)
    records = [failed, constant, trial(2, "focal", val_ece=0.04)]
    first = explain_choice(records, make_sweep())[0]
    assert "Chosen: focal" in first
    assert "validation error is at most 0.01 above the lowest" in first
    assert "the cross-entropy baseline did not finish (diverged)" in first
    assert rows_by_loss(records)["ecp"]["note"] == "error > lowest + 0.01"


def test_no_choice_is_told() -> None:
    stopped = [baseline(state="failed"), trial(1, "focal", epochs=1, state="stopped")]
    (line,) = explain_choice(stopped, make_sweep(search={"guard": 0.02}))
    assert "No setting is chosen" in line
    assert "chosen" not in selection_summary(stopped, make_sweep())


def test_reasons_of_failure_are_counted() -> None:
    reasons = ["diverged", "out of memory", "diverged"]
    failed = [trial(i, "focal", state="failed", reason=r) for i, r in enumerate(reasons)]
    assert failure_summary(failed) == "  2 × diverged\n  1 × out of memory"


@pytest.mark.parametrize(
    ("sections", "facts"),
    [
        (
            {"search": {"trials": 20}},
            {
                "trials": "20: the baseline, 6 published, 13 searched",
                "finalists": "at most 8 more: 3 settings and the baseline, 2 new seeds each",
                "epochs": "at most 9 a trial; poor trials stop at 1, 3 by val_nll",
                "in all": "at most 252 epochs",
            },
        ),
        (
            {"search": {"trials": 5}, "selection": {"finalists": 0}},
            {
                "trials": "5: the baseline, 4 published, 0 searched; 2 published settings do not "
                "fit",
                "finalists": "none",
                "in all": "at most 45 epochs",
            },
        ),
        (
            {"losses": ["brier"], "scheduler": {"name": "none"}},
            {
                "trials": "2: the baseline, 1 published, 0 searched",
                "finalists": "at most 4 more: 3 settings and the baseline, 2 new seeds each",
                "epochs": "at most 9 a trial",
            },
        ),
        (
            {"scaling": {"num_workers": 2, "cpus_per_worker": 4, "gpus_per_worker": 1.0}},
            {"each trial uses": "8 CPUs, 2 GPUs"},
        ),
    ],
)
def test_the_plan(sections: dict[str, Any], facts: dict[str, str]) -> None:
    sweep = make_sweep(**sections)
    assert facts.items() <= plan_facts(sweep).items()
    text = shown(*plan_tables(sweep))
    assert all(section.name in text for section in sweep.losses)


def test_ranges_read_well() -> None:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    assert describe_range(FloatDistribution(0.01, 1.0, log=True)) == "0.01 … 1 (log)"
    assert describe_range(FloatDistribution(0.0, 10.0)) == "0 … 10"
    assert describe_range(CategoricalDistribution(("a", 2))) == "a, 2"


def tracked(records: list[TrialRecord], **values: Any) -> TrackedSweep:
    known = {
        **{"sweep_id": "1", "name": "a", "dataset": "digits", "model": "small_cnn"},
        **{"objective": "val_ece", "guard": 0.01, "parent_id": "p", **values},
    }
    return TrackedSweep(
        records=records, run_ids={r.number: f"r{r.number}" for r in records}, **known
    )


def test_the_best_of_several_sweeps() -> None:
    lucky = tracked([baseline(val_ece=0.001)], name="lucky")
    again = baseline(val_ece=0.03, role="finalist", seed=1)
    again.number = 1
    sure = tracked([baseline(val_ece=0.02), again], name="sure")
    other = tracked([baseline(val_ece=0.5)], name="other", dataset="cifar10")
    hopeless = tracked([baseline(state="failed")], name="hopeless", model="resnet18_cifar")
    found = best_settings([lucky, sure, other, hopeless])
    assert [(entry["dataset"], entry["sweep"]) for entry in found] == [
        ("cifar10", "other"),
        ("digits", "sure"),
    ]
    assert found[1]["seeds"] == 1
    assert found[1]["val"]["ece"] == 0.03
    text = shown(best_table(found))
    for part in ("cifar10", ".5000", ".0100–.2000", "1.50"):
        assert part in text


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
    entry = {"loss": loss, "hyperparameters": hyperparameters}
    file = as_sweep_file(entry, tuned.model_dump(mode="json"))
    sweep = parse_sweep(YAML(typ="safe").load(to_yaml(file)))
    check_sweep(sweep)
    expected = [("cross_entropy", {}), (loss, hyperparameters)]
    assert initial_settings(sweep, 10) == expected[: sweep.search.trials]
    assert sweep.search.trials == (1 if loss == "cross_entropy" else 2)
    assert sweep.search.seed == 4
    assert sweep.training == tuned.training
    assert sweep.rungs == ()
    assert sweep.selection.seeds == 0


def test_every_component_is_listed() -> None:
    rows = {row["loss"]: row for row in losses_rows()}
    assert tuple(rows) == available_losses()
    assert all(row["formula"] and row["source"] for row in rows.values())
    assert rows["focal"]["hyperparameters"] == "gamma 3"
    assert rows["focal"]["search"] == "gamma 0 … 10"
    assert rows["brier"]["search"] == "–"
    lines = losses_markdown().splitlines()
    assert len(lines) == 2 + len(rows)
    assert {line.replace("\\|", "").count("|") for line in lines} == {6}
    for table, names in (
        (datasets_table(), available_datasets()),
        (models_table(), available_models()),
    ):
        text = shown(table, width=200)
        assert all(name in text for name in names)
        assert "package.module:function" in text
