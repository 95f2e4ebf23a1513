"""The guard rejects degenerate classifiers; the test split is never used for selection."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.results.leaderboard import leaderboard
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from sweeps.search.rules import Rule, rule_of
from tests.builders import baseline, finalist, make_sweep, trial

RULE = Rule("val_ece", 0.01)
SHARE = st.floats(0, 1)


def test_a_constant_classifier_with_an_ece_of_zero_is_not_chosen() -> None:
    constant = trial(1, val_ece=0.0, val_error=0.9)
    honest = trial(2, val_ece=0.03, val_error=0.105)
    chosen = Ranking([baseline(), constant, honest], RULE).chosen
    assert chosen is not None
    assert chosen.trials == (honest,)


@pytest.mark.parametrize("errors", [11, 60, 75, 105])
def test_rounding_does_not_decide_the_edge_of_the_guard(errors: int) -> None:
    """With 1,000 samples, ten more errors are just allowed, regardless of rounding."""
    reference, edge, beyond = (n / 1000 for n in (errors, errors + 10, errors + 11))
    (limit,) = RULE.limits.values()
    assert limit.excess(edge, reference) <= 0
    assert limit.excess(beyond, reference) > 0
    at_edge = trial(1, val_ece=0.0, val_error=edge)
    chosen = Ranking([baseline(val_error=reference), at_edge], RULE).chosen
    assert chosen is not None
    assert chosen.trials == (at_edge,)


records = st.lists(
    st.tuples(SHARE, SHARE, st.sampled_from(["finished", "stopped", "failed", "running"])),
    max_size=12,
)


@given(error=SHARE, drawn=records)
def test_whatever_the_trials_the_chosen_one_is_finished_and_within_the_guard(
    error: float, drawn: list[tuple[float, float, str]]
) -> None:
    trials = [baseline(val_error=error, val_ece=0.5)]
    for number, (val_error, val_ece, state) in enumerate(drawn, start=1):
        trials.append(
            replace(trial(number, val_error=val_error, val_ece=val_ece), state=state)  # type: ignore[arg-type]
        )
    chosen = Ranking(trials, RULE).chosen
    assert chosen is not None  # at least the baseline itself
    assert chosen.val_error <= (error + 0.01) * (1 + 1e-9)
    assert all(record.state == "finished" for record in chosen.trials)
    most = (error + 0.01) * (1 + 1e-9)
    within = [r for r in trials if r.state == "finished" and r.outcome["val_error"] <= most]
    assert chosen.objective == min(r.outcome["val_ece"] for r in within)


@given(drawn=records, shift=st.permutations(list(range(12))))
def test_the_test_split_is_never_used_for_selection(
    drawn: list[tuple[float, float, str]], shift: list[int]
) -> None:
    def made(test_ece: list[float]) -> list[TrialRecord]:
        return [
            baseline(),
            *(
                trial(i + 1, val_error=e, val_ece=c, test_ece=test_ece[i], test_error=test_ece[i])
                for i, (e, c, _) in enumerate(drawn)
            ),
        ]

    one = Ranking(made([0.0] * 12), RULE).chosen
    other = Ranking(made([s / 12 for s in shift]), RULE).chosen
    assert one is not None and other is not None
    assert one.trials[0].number == other.trials[0].number


def test_fresh_seeds_determine_the_selection() -> None:
    lucky, steady = trial(1, val_ece=0.001), trial(2, val_ece=0.02)
    again = [
        finalist(3, lucky, 1, val_ece=0.06),
        finalist(4, steady, 1, val_ece=0.02),
        finalist(5, lucky, 2, val_ece=0.05),
        finalist(6, steady, 2, val_ece=0.03),
    ]
    never_again = trial(7, val_ece=0.0)
    chosen = Ranking([baseline(), lucky, steady, *again, never_again], RULE).chosen
    assert chosen is not None
    assert chosen.trials[0] == steady
    assert chosen.objective == 0.025


def failed_finalist(number: int, of: TrialRecord, seed: int) -> TrialRecord:
    return finalist(number, of, seed, state="failed", reason="diverged", history=[])


def test_a_failed_fresh_seed_does_not_disqualify_the_best_setting() -> None:
    first, best, worst = baseline(), trial(1), trial(2)
    again = [
        finalist(3, best, 1, val_ece=0.010),
        finalist(4, worst, 1, val_ece=0.044),
        finalist(5, first, 1, val_ece=0.050),
        failed_finalist(6, best, 2),
        finalist(7, worst, 2, val_ece=0.046),
        finalist(8, first, 2, val_ece=0.052),
    ]
    chosen = Ranking([first, best, worst, *again], RULE).chosen
    assert chosen is not None
    assert chosen.setting == best.setting
    assert (chosen.objective, chosen.seeds) == (0.010, 1)


@pytest.mark.parametrize(("of_one_seed", "wins"), [(0.044, False), (0.030, True)])
def test_fewer_seeds_need_a_difference_beyond_their_noise(of_one_seed: float, wins: bool) -> None:
    """The deviation over seeds is 0.02, so the standard errors are 0.02 and 0.0141."""
    one, two, first = trial(1), trial(2), baseline()
    again = [
        finalist(3, one, 1, val_ece=of_one_seed),
        failed_finalist(4, one, 2),
        finalist(5, two, 1, val_ece=0.045 - 0.02 / 2**0.5),
        finalist(6, two, 2, val_ece=0.045 + 0.02 / 2**0.5),
        finalist(7, first, 1, val_ece=0.09 - 0.02 / 2**0.5),
        finalist(8, first, 2, val_ece=0.09 + 0.02 / 2**0.5),
    ]
    chosen = Ranking([first, one, two, *again], RULE).chosen
    assert chosen is not None
    assert (chosen.setting == one.setting) is wins
    if not wins:
        assert chosen.scores[0] == pytest.approx(0.045 + 0.02 / 2**0.5)


def test_the_finalist_with_further_seeds_stays_selected() -> None:
    """With ``selection.seeds: auto`` its first seeds were lucky, and those of others still are."""
    best, other, first = trial(1), trial(2), baseline()
    again = [finalist(3 + s, best, s, val_ece=0.02 + 0.01 * s) for s in range(4)]
    again += [finalist(7 + s, other, s, val_ece=0.03) for s in range(2)]
    again += [finalist(9 + s, first, s, val_ece=0.09) for s in range(4)]
    chosen = Ranking([first, best, other, *again], RULE).chosen
    assert chosen is not None
    assert chosen.setting == best.setting


def test_a_trial_without_the_objective_is_no_candidate() -> None:
    broken = trial(1, val_ece=float("nan"))
    assert [c.loss for c in Ranking([baseline(), broken], RULE).candidates] == ["cross_entropy"]


def test_finalists_are_the_best_feasible_ones_and_the_baseline() -> None:
    trials = [
        baseline(val_ece=0.09),
        trial(1, val_ece=0.03),
        trial(2, val_ece=0.01, val_error=0.5),
        trial(3, val_ece=0.02),
        trial(4, val_ece=0.04),
    ]
    chosen = Ranking(trials, RULE).finalists(2)
    assert [c.trials[0].number for c in chosen] == [3, 1, 0]
    assert Ranking(trials, RULE).finalists(0) == []


def test_finalists_are_of_two_losses_at_least() -> None:
    """Settings of one loss break the guard together."""
    trials = [baseline(), *(trial(n, "focal", val_ece=0.01 * n) for n in range(1, 5))]
    trials += [trial(5, "mbls", val_ece=0.07), trial(6, "mdca", val_ece=0.08)]
    ranking = Ranking(trials, RULE)
    numbers = [[c.trials[0].number for c in ranking.finalists(count)] for count in (1, 2, 3)]
    assert numbers == [[1, 0], [1, 5, 0], [1, 2, 5, 0]]
    alone = Ranking(trials[:-2], RULE).finalists(3)
    assert [c.trials[0].number for c in alone] == [1, 2, 3, 0]


@pytest.mark.parametrize(("error", "feasible"), [(0.325, True), (0.34, False)])
def test_the_guard_tolerates_noise_of_the_errors(error: float, feasible: bool) -> None:
    """400 validation samples: the standard error of the difference is .033."""

    def with_interval(error: float) -> dict[str, float]:
        half = 1.96 * (error * (1 - error) / 400) ** 0.5
        return {"val_error": error, "val_error_low": error - half, "val_error_high": error + half}

    first, best = baseline(), trial(1)
    again = [finalist(2, best, 1, val_ece=0.0255, **with_interval(error))]
    again += [finalist(3 + s, first, s, val_ece=0.1385, **with_interval(0.305)) for s in (1, 2, 3)]
    ranking = Ranking([first, best, *again], RULE)
    by_loss = {c.loss: c.feasible for c in ranking.candidates}
    assert by_loss == {"cross_entropy": True, best.loss: feasible}


@pytest.mark.parametrize("per_loss", [False, True])
def test_a_setting_that_trains_the_networks_of_cross_entropy_is_no_finalist(per_loss: bool) -> None:
    """A margin that is never reached: its slot goes to the next setting."""
    same: dict[str, Any] = {
        "val_nll_scaled": 0.31234,
        "val_nll": 0.4,
        "val_error": 0.1,
        "val_ece": 0.02,
    }
    first = baseline(**same)
    copy, another = trial(1, "mbls", **same), trial(2, "mbls", **(same | {"val_ece": 0.03}))
    last_bit = trial(3, "focal", **(same | {"val_nll_scaled": math.nextafter(0.31234, 1)}))
    ranking = Ranking([first, copy, another, last_bit], RULE)
    by_number = {c.trials[0].number: ranking.repeats_baseline(c) for c in ranking.candidates}
    assert by_number == {0: False, 1: True, 2: False, 3: False}
    found = [c.trials[0].number for c in ranking.finalists(2, per_loss=per_loss)]
    assert sorted(found) == ([0, 2, 3] if per_loss else [0, 3])
    notes = {row.loss: row.note for row in leaderboard(Ranking([first, copy], RULE))}
    assert notes["mbls"] == "same as cross_entropy"


def test_finalists_per_loss_are_the_best_of_each_even_beyond_the_guard() -> None:
    records = [
        baseline(val_ece=0.05),
        trial(1, "focal", {"gamma": 1}, val_ece=0.01),
        trial(2, "focal", {"gamma": 2}, val_ece=0.02),
        trial(3, "mbls", val_ece=0.04),
        trial(4, "brier", val_ece=0.001, val_error=0.9),
    ]
    found = Ranking(records, RULE).finalists(3, per_loss=True)
    assert [each.trials[0].number for each in found] == [1, 3, 4, 0]
    assert [each.loss for each in Ranking(records, RULE).finalists(2, per_loss=True)] == [
        "focal",
        "mbls",
        "cross_entropy",
    ]


def test_finalists_are_those_of_the_lowest_expected_objective() -> None:
    """A setting just outside the guard may be feasible, because both errors are noisy."""

    def measured(number: int, val_error: float, val_ece: float) -> TrialRecord:
        ends = {"val_error_low": val_error - 0.02, "val_error_high": val_error + 0.02}
        make = baseline if number == 0 else trial
        return make(number, val_error=val_error, val_ece=val_ece, **ends)

    trials = [
        measured(0, val_error=0.1, val_ece=0.09),
        measured(1, val_error=0.1, val_ece=0.08),  # almost surely within the guard
        measured(2, val_error=0.111, val_ece=0.01),  # outside, perhaps by chance
        measured(3, val_error=0.15, val_ece=0.0),  # clearly outside
        measured(4, val_error=0.9, val_ece=0.0),
        measured(5, val_error=0.1, val_ece=0.1),
    ]
    assert [c.trials[0].number for c in Ranking(trials, RULE).finalists(1)] == [2, 0]
    assert [c.trials[0].number for c in Ranking(trials, RULE).finalists(5)] == [2, 1, 0, 5]
    constrained = rule_of(make_sweep(search={"constraints": {"val_error": 0.105}}))
    assert [c.trials[0].number for c in Ranking(trials, constrained).finalists(5)] == [1, 0, 5]


def test_without_a_baseline_a_constant_classifier_is_not_chosen_either() -> None:
    failed = replace(baseline(), state="failed")
    constant, honest = trial(1, val_error=0.9, val_ece=0.0), trial(2, val_ece=0.03)
    chosen = Ranking([failed, constant, honest], RULE).chosen
    assert chosen is not None
    assert chosen.trials == (honest,)
    assert [c.trials[0] for c in Ranking([failed, constant, honest], RULE).finalists(3)] == [honest]


def test_without_a_baseline_finalists_are_not_held_to_a_single_lucky_error() -> None:
    lucky, steady = trial(1, val_error=0.05), trial(2, val_error=0.055)
    again = [
        finalist(3, lucky, 1, val_error=0.1, val_ece=0.03),
        finalist(4, steady, 1, val_error=0.105, val_ece=0.02),
    ]
    never_again = trial(5, val_error=0.04, val_ece=0.0)
    chosen = Ranking([lucky, steady, *again, never_again], RULE).chosen
    assert chosen is not None
    assert chosen.trials[0] == steady


@pytest.mark.parametrize(
    ("metric", "limit", "kept", "broken"),
    [
        ("val_nll", 0.3, 0.3, 0.301),
        ("val_auroc", {"at_least": 0.9}, 0.9, 0.899),
        ("val_brier", {"above_baseline": 0.01}, 0.209, 0.211),
        ("val_brier", {"above_baseline": -0.05}, 0.149, 0.151),  # better than the baseline
        ("val_auroc", {"below_baseline": 0.01}, 0.941, 0.939),
    ],
)
def test_what_breaks_a_constraint_is_not_chosen(
    metric: str, limit: Any, kept: float, broken: float
) -> None:
    rule = rule_of(make_sweep(search={"constraints": {metric: limit}}))
    first = baseline(val_nll=0.2, val_brier=0.2, val_auroc=0.95)
    good = trial(1, val_ece=0.05, **{metric: kept})
    bad = trial(2, val_ece=0.0, **{metric: broken})
    unknown = trial(3, val_ece=0.0, **{metric: float("nan")})
    chosen = Ranking([first, good, bad, unknown], rule).chosen
    assert chosen is not None
    assert chosen.trials == (good,)
    without = Ranking([baseline(state="failed"), good, bad], rule).chosen
    # The best setting replaces the baseline, and nothing is better than that.
    assert (without is None) == (isinstance(limit, dict) and limit.get("above_baseline", 0) < 0)
    assert {c.feasible for c in Ranking([first, bad, unknown], RULE).candidates} == {True}


def test_a_baseline_that_breaks_a_constraint_is_trained_again_all_the_same() -> None:
    rule = rule_of(make_sweep(search={"constraints": {"val_nll": 0.3}}))
    trials = [baseline(val_nll=0.5), trial(1, val_ece=0.05), trial(2, val_ece=0.02)]
    ranking = Ranking(trials, rule)
    assert [c.trials[0].number for c in ranking.finalists(1)] == [2, 0]
    only = Ranking(trials[:1], rule)
    assert only.chosen is None
    assert [c.trials[0].number for c in only.finalists(1)] == [0]


def test_finalists_keep_to_constraints_over_their_new_seeds() -> None:
    rule = rule_of(make_sweep(search={"constraints": {"val_nll": {"above_baseline": 0.02}}}))
    lucky, steady = trial(1, val_ece=0.01), trial(2, val_ece=0.03)
    again = [
        finalist(3, lucky, 1, val_ece=0.01, val_nll=0.14),
        finalist(4, steady, 1, val_ece=0.03, val_nll=0.11),
        finalist(5, baseline(), 1, val_nll=0.1),
    ]
    chosen = Ranking([baseline(val_nll=0.5), lucky, steady, *again], rule).chosen
    assert chosen is not None
    assert chosen.trials[0] == steady


FRONT = rule_of(make_sweep(search={"objective": ["val_ece", "val_nll"]}))


def test_with_several_objectives_the_finalists_are_the_pareto_front() -> None:
    trials = [
        baseline(val_ece=0.2, val_nll=0.5),
        trial(1, val_ece=0.01, val_nll=0.9),
        trial(2, val_ece=0.02, val_nll=0.6),
        trial(3, val_ece=0.03, val_nll=0.4),
        trial(4, val_ece=0.09, val_nll=0.1),
        trial(5, val_ece=0.03, val_nll=0.7),  # dominated by the second
        trial(6, val_ece=0.0, val_nll=0.0, val_error=0.5),
    ]
    ranking = Ranking(trials, FRONT)
    assert [c.trials[0].number for c in ranking.front] == [1, 2, 3, 4]
    assert ranking.chosen == ranking.front[0]
    assert [c.trials[0].number for c in ranking.finalists(4)] == [1, 2, 3, 4, 0]
    assert [c.trials[0].number for c in ranking.finalists(3)] == [1, 3, 4, 0]
    assert [c.trials[0].number for c in ranking.finalists(1)] == [1, 0]
    again = [finalist(7, trials[1], 1, val_ece=0.05, val_nll=0.9)]
    again += [finalist(8, trials[3], 1, val_ece=0.03, val_nll=0.4)]
    last = Ranking([*trials, *again], FRONT)
    assert [c.trials[0].number for c in last.front] == [3]


@given(values=st.lists(st.tuples(SHARE, SHARE, SHARE), min_size=1, max_size=12))
def test_nothing_feasible_beats_the_front(values: list[tuple[float, float, float]]) -> None:
    trials = [
        trial(i, val_ece=e, val_nll=n, val_error=r) for i, (e, n, r) in enumerate(values, start=1)
    ]
    ranking = Ranking([baseline(val_error=0.5), *trials], FRONT)
    feasible = [c for c in ranking.candidates if c.feasible]
    assert ranking.chosen in ranking.front
    for each in feasible:
        beaten = [
            o
            for o in feasible
            if o.objective <= each.objective
            and o.objectives[1:] <= each.objectives[1:]
            and o.objectives != each.objectives
        ]
        assert (each in ranking.front) is not bool(beaten)
