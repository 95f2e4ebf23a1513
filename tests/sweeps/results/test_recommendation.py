"""One recommendation: cross-entropy with a temperature unless the evidence says otherwise."""

import math
from dataclasses import replace
from typing import Any

import pytest

from sweeps.results.columns import LeaderboardRow
from sweeps.results.evidence import NOT_YET, EnsembleEvidence, Evidence, Member
from sweeps.results.recommendation import Recommendation, recommend
from sweeps.results.scaling import ScalingRow
from sweeps.results.verdicts import Verdict
from sweeps.search.record import TrialRecord
from tests.builders import SCALED, baseline, compared, ranked, trial

PLAIN = baseline(val_ece=0.05, temperature=1.62)
FOCAL = trial(1, val_ece=0.02, temperature=0.9)


def judged(verdict: Verdict, metric: str = "ece", ending: str = SCALED) -> Evidence:
    theirs = f"cross_entropy{ending}"
    found = compared("focal", theirs, metric, -0.01, -0.03, 0.01, verdict, 2, "test")
    return Evidence((found,))


def recommended(
    records: list[TrialRecord], evidence: Evidence = NOT_YET, **search: Any
) -> Recommendation:
    found = recommend(ranked(records, search=search), evidence)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("evidence", "kind", "text"),
    [
        (
            judged("supported"),
            "setting",
            "focal (γ=1) with a temperature (trial 1, T = 0.90). It is shown to beat cross-entropy "
            "with its scaling, by ECE on the test split (-0.0100 [-0.0300, +0.0100]).",
        ),
        (
            judged("not supported"),
            "baseline",
            "cross-entropy with a temperature (trial 0, T = 1.62). The selected setting, focal "
            "(γ=1), is not shown to beat it, by ECE on the test split (-0.0100 [-0.0300, "
            "+0.0100]).",
        ),
        (
            judged("worse"),
            "baseline",
            "cross-entropy with a temperature (trial 0, T = 1.62). The selected setting, focal "
            "(γ=1), is worse, by ECE on the test split (-0.0100 [-0.0300, +0.0100]).",
        ),
        (
            NOT_YET,
            "baseline",
            "cross-entropy with a temperature (trial 0, T = 1.62). The selected setting, focal "
            "(γ=1), has not been compared with it on the same samples.",
        ),
    ],
)
def test_it_follows_the_deciding_verdict(evidence: Evidence, kind: str, text: str) -> None:
    found = recommended([PLAIN, FOCAL], evidence)
    assert (found.kind, found.text) == (kind, f"Recommended: {text}")


def test_by_the_error_the_rival_has_no_temperature() -> None:
    records = [baseline(val_error=0.2), trial(1, val_error=0.1)]
    found = recommended(records, judged("supported", "error", ""), objective="val_error")
    assert found.why.startswith("It is shown to beat cross-entropy, by error on the test split")


def test_where_cross_entropy_is_selected_or_no_option() -> None:
    worse = trial(1, val_ece=0.2)
    assert recommended([PLAIN, worse]).why == "It also has the lowest validation ECE."
    beyond = trial(1, val_ece=0.001, val_error=0.9)
    assert recommended([PLAIN, beyond]).why == (
        "It also has the lowest validation ECE of the settings within the limits."
    )
    alone = recommended([FOCAL])
    assert (alone.kind, alone.trials) == ("setting", (1,))
    assert "cross-entropy, which did not finish" in alone.why
    limits = {"constraints": {"val_nll": {"at_most": 0.4}}}
    records = [baseline(val_ece=0.05, val_nll=0.9), trial(1, val_ece=0.02, val_nll=0.3)]
    limited = recommended(records, judged("not supported"), **limits)
    assert (limited.kind, limited.why) == (
        "setting",
        "It is the selected setting; cross-entropy is no option: NLL too high.",
    )
    assert recommend(ranked([baseline(state="failed", history=[])]), NOT_YET) is None


def test_only_a_temperature_has_a_value_in_the_name() -> None:
    row = ScalingRow("cross_entropy", (0,), ("none",), False, 1.0, 0.4, 0.41, 0.1, 0.1)
    evidence = Evidence(judged("worse").comparisons, scalings=[row])
    found = recommended([PLAIN, FOCAL], evidence)
    assert found.text.startswith("Recommended: cross-entropy with no scaling (trial 0). ")
    assert "its NLL is 0.4000, with a temperature alone 0.4100." in found.why
    matrix = {"name": "matrix", "temperature": 1.3, "inverse": None}
    ensemble = networks(0, 2, 3, scaling=matrix)
    mean = recommend(ranked([PLAIN, FOCAL]), Evidence(ensemble=ensemble), with_ensemble=True)
    assert mean is not None and mean.temperature is None
    name = "the mean of 3 seeds of cross-entropy with structured matrix scaling"
    assert mean.text.startswith(f"Recommended: {name} (trials 0, 2, 3). ")


def test_a_network_with_a_fresh_seed_is_recommended_where_there_is_one() -> None:
    again = [baseline(2, role="finalist", seed=1, val_ece=0.05), FOCAL]
    assert recommended([PLAIN, *again]).trials == (2,)


def networks(*numbers: int, **further: Any) -> EnsembleEvidence:
    row = LeaderboardRow("ensemble" if 1 in numbers else "seeds", "several", "", {})
    members = tuple(Member(number, "", 1.0) for number in numbers)
    return EnsembleEvidence(row, members, len(set(numbers)), 0.9, math.nan, **further)


def several(verdict: Verdict) -> EnsembleEvidence:
    name = f"the mean of 2 seeds of cross_entropy{SCALED}"
    found = compared("ensemble", name, "nll", -0.01, -0.03, 0.01, verdict, 1, "test")
    offered = "ensemble" if verdict == "supported" else "seeds"
    seeds = networks(0, 2, 3)
    return networks(1, 1, 4, seeds=seeds, comparisons=(found,), offered=offered)


@pytest.mark.parametrize(
    ("of_setting", "of_ensemble", "kind", "trials", "row"),
    [
        ("not supported", "supported", "ensemble", (1, 4), "ensemble"),
        ("not supported", "not supported", "ensemble", (0, 2, 3), "cross_entropy × 3"),
        ("supported", "supported", "ensemble", (1, 4), "ensemble"),
        ("supported", "worse", "setting", (1,), "focal"),
    ],
)
def test_several_networks_where_they_are_allowed_and_supported(
    of_setting: Verdict, of_ensemble: Verdict, kind: str, trials: tuple[int, ...], row: str
) -> None:
    evidence = Evidence(judged(of_setting).comparisons, ensemble=several(of_ensemble))
    found = recommend(ranked([PLAIN, FOCAL]), evidence, with_ensemble=True)
    assert found is not None
    assert (found.kind, found.trials) == (kind, trials)
    rows = [
        LeaderboardRow("baseline", "cross_entropy", "", {}, trials={"finished": 2}),
        LeaderboardRow("selected", "focal", "", {}, trials={"finished": 1}),
        LeaderboardRow("ensemble", "ensemble", "", {}),
        LeaderboardRow("seeds", "cross_entropy × 3", "", {}),
    ]
    assert [each.loss for each in rows if found.is_row(each)] == [row]
    assert kind == "setting" or f"a prediction costs {len(trials)} networks." in found.why
    alone = recommended([PLAIN, FOCAL], evidence)
    assert alone.kind == ("setting" if of_setting == "supported" else "baseline")
    names = ("temperature",)
    one = ScalingRow(alone.loss, alone.trials, names, False, 1.1, 0.4, 0.4, 0.1, 0.1)
    known = replace(evidence, scalings=(one,))
    found = recommend(ranked([PLAIN, FOCAL]), known, with_ensemble=True)
    assert found is not None
    assert ("that of one network 0.4000" in found.text) == (kind == "ensemble")


def test_an_undecided_ensemble_is_not_recommended() -> None:
    evidence = Evidence(ensemble=networks(1, 4, offered="ensemble"))
    found = recommend(ranked([PLAIN, FOCAL]), evidence, with_ensemble=True)
    assert found is not None and found.kind == "baseline"
