"""The plan that `calsweep check` prints."""

from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sweeps.planning.preview import describe_range, plan_facts
from sweeps.search.plan import Plan
from sweeps.terminal.plan_tables import plan_tables
from tests.builders import make_sweep, shown


@pytest.mark.parametrize(
    ("sections", "facts"),
    [
        (
            {"search": {"trials": 20}},
            {
                "trials": "20: the baseline, 6 published, 13 searched",
                "finalists": "at most 8 more: 3 settings with 1 fresh seed each and the "
                "baseline with 3 fresh seeds; then the best of them has 3",
                "epochs": "at most 9 a trial; poor trials stop at 1, 3 by val_nll",
                "total": "at most 252 epochs",
            },
        ),
        (
            {"search": {"sampler": "guided"}},
            {
                "trials": "at most 16: the baseline, then guided until no other is expected to be "
                "better",
            },
        ),
        (
            {"search": {"sampler": "guided", "trials": 50}},
            {
                "trials": "at most 50: the baseline, then guided until no other is expected to be "
                "better",
                "epochs": "at most 9 a trial",
                "starts from": "the settings of 6 recorded datasets, and finished sweeps in the "
                "storage",
            },
        ),
        (
            {"search": {"sampler": "guided", "objective": "val_error", "trials": 20}},
            {
                "trials": "20: the baseline, 6 published, 13 searched; by tpe, because guided "
                "needs one objective that a temperature affects, not val_error",
                "epochs": "at most 9 a trial; poor trials stop at 1, 3 by val_nll",
            },
        ),
        (
            {"search": {"trials": 1}},
            {
                "trials": "1: the baseline; with search.trials = 1 none of the losses can be "
                "tried; 3 are enough to try each loss",
            },
        ),
        (
            {"search": {"trials": 2}},
            {
                "trials": "2: the baseline, 1 published, 0 searched; 5 published settings left "
                "out; with search.trials = 2 at most 1 of the 2 losses can be tried (not "
                "mbls); 3 are enough to try each loss",
            },
        ),
        (
            {"search": {"trials": 5}, "selection": {"finalists": 0}},
            {
                "trials": "5: the baseline, 4 published, 0 searched; 2 published settings left out",
                "finalists": "none",
                "total": "at most 45 epochs",
            },
        ),
        (
            {"search": {"constraints": {"val_nll": 0.3, "val_brier": {"above_baseline": 0.01}}}},
            {
                "selected by": "val_ece, validation error at most 0.01 above cross-entropy's, "
                "val_nll at most 0.3, val_brier at most 0.01 above cross-entropy's"
            },
        ),
        (
            {"search": {"objective": ["val_ece", "val_error"]}},
            {
                "selected by": "the Pareto front of val_ece and val_error, validation error at "
                "most 0.01 above cross-entropy's"
            },
        ),
        (
            {"search": {"max_epochs": 180, "max_hours": 2.5}},
            {
                "total": "at most 180 epochs",
                "budget": "180 epochs: 12 of 50 trials to their end and 8 of finalists, more where "
                "poor trials stop; 2.5 hours: as many trials as leave time for the finalists",
            },
        ),
        (
            {"search": {"max_epochs": 180}, "selection": {"seeds": "auto"}},
            {
                "finalists": "at most 18 more: 3 settings with 1 fresh seed each and the "
                "baseline with 3 fresh seeds; then the best of them has 3, and it and the baseline "
                "have 5 or 8 until the verdict is decided",
                "budget": "180 epochs: 12 of 50 trials to their end and 8 of finalists, more where "
                "poor trials stop",
            },
        ),
        (
            {"search": {"max_epochs": 20}, "scheduler": {"name": "none"}},
            {"budget": "20 epochs: 1 of 50 trials to their end and 0 of finalists"},
        ),
        (
            {"search": {"max_epochs": 90, "trials": 5}, "selection": {"finalists": 0}},
            {"budget": "90 epochs: 5 of 5 trials to their end and 0 of finalists"},
        ),
        (
            {"losses": ["brier"], "scheduler": {"name": "none"}},
            {
                "trials": "2: the baseline, 1 published, 0 searched",
                "finalists": "at most 6 more: 1 setting with 3 fresh seeds and the baseline with "
                "3 fresh seeds",
                "epochs": "at most 9 a trial",
            },
        ),
        (
            {"losses": [{"name": "focal", "space": {"gamma": {"choices": [1, 7]}}}]},
            {
                "trials": "3: the baseline, 1 published, 1 searched; there are no other settings, "
                "so search.trials = 50 is not met",
                "finalists": "at most 7 more: 2 settings with 1 fresh seed each and the "
                "baseline with 3 fresh seeds; then the best of them has 3",
            },
        ),
        (
            {"scaling": {"num_workers": 2, "cpus_per_worker": 4, "gpus_per_worker": 1.0}},
            {"each trial uses": "8 CPUs, 2 GPUs"},
        ),
    ],
)
def test_the_plan(sections: dict[str, Any], facts: dict[str, str]) -> None:
    sweep = make_sweep(training={"epochs": 9}, **sections)
    assert facts.items() <= plan_facts(Plan(sweep)).items()
    text = shown(*plan_tables(Plan(sweep)))
    assert all(section.name in text for section in sweep.losses)


def test_the_plan_contains_the_pilot() -> None:
    sections = {"training": {"epochs": 4, "patience": 2}, "selection": {"finalists": 0}}
    facts = plan_facts(Plan(make_sweep(search={"trials": 5}, **sections)))
    assert facts["total"] == "at most 24 epochs"
    facts = plan_facts(Plan(make_sweep(search={"trials": 5, "max_epochs": 23}, **sections)))
    assert facts["budget"].startswith("23 epochs: 4 of 5 trials to their end and 0 of finalists")


def test_ranges_read_well() -> None:
    assert describe_range(FloatDistribution(0.01, 1.0, log=True)) == "0.01 … 1 (log)"
    assert describe_range(FloatDistribution(0.0, 10.0)) == "0 … 10"
    assert describe_range(CategoricalDistribution(("a", 2))) == "a, 2"


def test_the_plan_names_plateaus_and_the_selected_epoch() -> None:
    given = {"epochs": 200, "schedule": "plateau", "keep": "val_ece", "keep_after": 0.6}
    whole = make_sweep(training=given).training.completed({}).model_dump()
    facts = plan_facts(Plan(make_sweep(training=whole)))
    assert "(times 0.1 after more than 10 epochs without a lower validation" in facts["training"]
    assert facts["network"] == "of the epoch with the lowest val_ece after epoch 120"
    assert "network" not in plan_facts(Plan(make_sweep(training=whole | {"keep": "last"})))
