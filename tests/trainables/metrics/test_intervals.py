"""Coverage of intervals; `benchmarks/intervals.py` has the distributions and measures more."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.intervals import (
    Law,
    Results,
    fill,
    intervals_of,
    measure,
    of_metric,
    population_value,
    resampled_errors,
    simulated,
    softmax,
)
from trainables import metrics as M
from trainables.metrics.inference.dirichlet import weighted_mean_quantile
from trainables.metrics.inference.influence import mean_interval, proportion_interval

WITH_INTERVAL = [name for name in M.METRIC_NAMES if name != "mce"]


@pytest.fixture(scope="module")
def laws() -> dict[tuple[str, int], Law]:
    kinds = ("calibrated", "slightly overconfident", "much underconfident")
    return {(kind, k): simulated(kind, k, 10_000) for kind in kinds for k in (2, 10)}


@pytest.mark.parametrize("num_classes", [2, 10])
@pytest.mark.parametrize("kind", ["calibrated", "slightly overconfident", "much underconfident"])
def test_intervals_cover(kind: str, num_classes: int, laws: dict[tuple[str, int], Law]) -> None:
    # With a coverage of 95%, fewer than 33 of 40 intervals cover once in 5,000 times.
    law = laws[kind, num_classes]
    names = ("ece", "adaptive_ece", "debiased_ece", "classwise_ece", "nll", "brier", "error")
    for name, (truth, interval) in intervals_of(law, names).items():
        row = measure(law, name, interval, truth, 500, repetitions=40, seed=0)
        assert row.covers >= 33 / 40, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "num_classes"),
    [("calibrated", 10), ("slightly overconfident", 2)],
)
def test_intervals_of_every_metric_cover(
    kind: str, num_classes: int, laws: dict[tuple[str, int], Law]
) -> None:
    # With a coverage of 95%, fewer than 87 of 100 intervals cover once in 1,000 times. These two
    # take most of the time and cover in 97.5% of cases: fewer than 36 of 40 once in 300 times. With
    # a coverage of 85%, they fail in 74% of cases, and the others in 65%.
    law = laws[kind, num_classes]
    for name, (truth, interval) in intervals_of(law, WITH_INTERVAL).items():
        repetitions, least = (40, 36) if name in ("kde_ece", "smooth_ece") else (100, 87)
        row = measure(law, name, interval, truth, 1000, repetitions=repetitions, seed=1)
        assert row.covers >= least / repetitions, name


def test_the_percentile_bootstrap_of_a_calibrated_model_does_not_cover(
    laws: dict[tuple[str, int], Law],
) -> None:
    law = laws["calibrated", 10]
    rows = {
        name: measure(law, name, interval, truth, 500, repetitions=20, seed=0)
        for name, (truth, interval) in intervals_of(law, ["percentile bootstrap", "ece"]).items()
    }
    assert rows["percentile bootstrap"].covers == 0
    assert rows["ece"].covers >= 0.8


def test_the_resampled_errors_of_the_benchmark_are_those_of_the_bootstrap(
    laws: dict[tuple[str, int], Law],
) -> None:
    law = laws["slightly overconfident", 10]
    probs, labels = law.draw(500, np.random.default_rng(0))
    confidence, predicted = probs.max(dim=1)
    value, drawn = resampled_errors(confidence, predicted == labels)
    expected, low, high = M.bootstrap(M.expected_calibration_error, probs, labels)
    assert value == pytest.approx(expected, abs=1e-12)
    assert np.quantile(drawn, [0.025, 0.975]) == pytest.approx((low, high), abs=0.005)


def test_an_interrupted_benchmark_continues(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    laws = [simulated(kind, 3, 300) for kind in ("calibrated", "much overconfident")]
    fill(Results(path), laws[:1], ["ece"], [50], repetitions=2)
    first = path.read_text()
    again = Results(path)
    fill(again, laws, ["ece"], [50], repetitions=2)
    assert path.read_text().startswith(first)  # with the same seconds, so it was not measured again
    assert len(again.rows) == 2
    fill(again, laws[:1], ["ece"], [50], repetitions=3)
    assert Results(path).rows[3, "calibrated", "ece", 50].repetitions == 3
    assert again.table(["ece", "smooth_ece"]).count("\n") == 3
    fill(again, laws, ["inversion along the true gaps"], [50], repetitions=2)
    assert "inversion along the true gaps" in again.relative_widths()


@settings(max_examples=12, deadline=None)
@given(
    st.integers(2, 80),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.5, 3.0, 30.0, 1e4]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_ends_are_ordered_and_lie_in_the_range(
    num_samples: int, num_classes: int, scale: float, all_right: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    labels = logits.argmax(dim=1) if all_right else labels
    probs = torch.softmax(logits, dim=1)
    for name in M.METRIC_NAMES:
        value, low, high = M.interval(name, probs, labels)
        assert value == pytest.approx(M.METRICS[name].function(probs, labels), nan_ok=True)
        if math.isnan(low) or math.isnan(high):
            assert math.isnan(low) and math.isnan(high)
            assert name in ("mce", "auroc", "failure_auroc", "aurc", "e_aurc"), name
            continue
        assert low <= high, name
        if name not in ("nll", "e_aurc"):
            assert low >= -1e-9, name
            assert high <= (2 if "brier" in name else 1) + 1e-9, name


@pytest.mark.parametrize("name", WITH_INTERVAL)
def test_higher_levels_are_wider_and_more_samples_are_narrower(name: str) -> None:
    law = simulated("much overconfident", 5, 4000)
    random = np.random.default_rng(0)
    few, many = law.draw(200, random), law.draw(2000, random)
    widths = {}
    for level in (0.5, 0.95):
        for size, sample in (("few", few), ("many", many)):
            _, low, high = M.interval(name, *sample, confidence=level)
            widths[level, size] = high - low
    assert widths[0.5, "few"] < widths[0.95, "few"]
    assert widths[0.5, "many"] < widths[0.95, "many"]
    assert widths[0.95, "many"] < 0.5 * widths[0.95, "few"]


@pytest.mark.parametrize("name", WITH_INTERVAL)
def test_an_interval_is_deterministic_and_keeps_the_random_state(name: str) -> None:
    sample = simulated("calibrated", 4, 200).draw(100, np.random.default_rng(0))
    before = torch.get_rng_state()
    first = M.interval(name, *sample)
    assert torch.equal(torch.get_rng_state(), before)
    assert M.interval(name, *sample) == first


def test_intervals_include_zero_only_for_calibrated_predictions() -> None:
    errors = ("ece", "adaptive_ece", "classwise_ece", "smooth_ece", "kde_ece", "debiased_ece")
    random = np.random.default_rng(3)
    calibrated = simulated("calibrated", 10, 5000).draw(2000, random)
    overconfident = simulated("much overconfident", 10, 5000).draw(2000, random)
    for name in errors:
        assert M.interval(name, *calibrated)[1] == 0
        assert M.interval(name, *overconfident)[1] > 0


def test_two_classes_have_the_classwise_interval_of_one() -> None:
    probs, labels = simulated("much overconfident", 2, 5000).draw(4000, np.random.default_rng(0))
    _, low, high = M.interval("classwise_ece", probs, labels)
    assert low > 0
    assert M.interval("classwise_ece", probs.flip(1), 1 - labels)[1:] == pytest.approx(
        (low, high), rel=0.1
    )


@pytest.mark.parametrize("name", ["classwise_ece", "classwise_adaptive_ece"])
def test_class_wise_intervals_of_equal_confidences_have_their_own_width(name: str) -> None:
    """The lowest probabilities are tied, so a class has empty bins below them."""
    top = torch.arange(300) % 3
    wrong = torch.arange(300) // 3 % 5 == 0
    labels = (top + wrong * (1 + torch.arange(300) // 15 % 2)) % 3
    probs = torch.full((300, 3), 0.05, dtype=torch.float64)
    probs[torch.arange(300), top] = 0.9
    value, _, high = M.interval(name, probs, labels)
    # All gaps at .9 are positive, all others negative.
    summand = 0.9 - 2 * 0.05 - torch.where(wrong, -1.0, 1.0).double()
    assert value == pytest.approx(2 * 0.1 / 3)
    half = 1.959964 * float(summand.std()) / 300**0.5 / 3
    assert half < high - value < 1.2 * half  # and an error that was not seen


def test_the_auroc_of_tied_scores_has_one_interval_in_both_precisions() -> None:
    draw = torch.Generator().manual_seed(0)
    probs = (3 * torch.rand(500, 3, generator=draw, dtype=torch.float64)).softmax(dim=1)
    probs = (10 * probs).round() / 10
    probs /= probs.sum(dim=1, keepdim=True)
    labels = torch.multinomial(probs, 1, generator=draw)[:, 0]
    expected = M.interval("auroc", probs.float(), labels)
    assert M.interval("auroc", probs, labels) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("classes unlike, scaled", "classwise_ece"), ("label noise", "classwise_adaptive_ece")],
)
def test_class_wise_intervals_cover_without_a_true_temperature(kind: str, name: str) -> None:
    law = simulated(kind, 30, 20_000)
    (truth, interval) = intervals_of(law, [name])[name]
    row = measure(law, name, interval, truth, 3000, repetitions=20, seed=0)
    assert row.covers >= 0.95  # .1 and .7 with the earlier interval


def test_smooth_error_intervals_cover_overconfident_subgroups() -> None:
    law = simulated("overconfident subgroup", 30, 40_000)
    (truth, interval) = intervals_of(law, ["smooth_ece"])["smooth_ece"]
    row = measure(law, "smooth_ece", interval, truth, 800, repetitions=40, seed=800)
    assert row.below <= 0.05  # .125 along the fitted curve alone


@pytest.mark.parametrize("name", ["ece", "adaptive_ece", "kde_ece", "over"])
def test_upper_ends_allow_for_gaps_that_the_curve_misses(name: str) -> None:
    law = simulated("overconfident subgroup", 30, 20_000)
    confidence, correct = law.draw_top_label(800, np.random.default_rng(4))
    low, high = of_metric(name).ends(confidence, correct)
    gaps = confidence - correct.double()
    assert low > 0
    assert high >= float(gaps.mean()) + 1.959 * float(gaps.std()) / 800**0.5


@pytest.mark.slow
def test_intervals_account_for_random_bin_edges() -> None:
    # Mostly correct with low confidence: gaps change sign at the edges of bins.
    probs = simulated("calibrated", 30, 60_000).probs
    law = Law("sharp", probs, softmax(5 * np.log(probs)))
    (truth, interval) = intervals_of(law, ["classwise_adaptive_ece"])["classwise_adaptive_ece"]
    row = measure(law, "classwise_adaptive_ece", interval, truth, 6000, repetitions=60, seed=0)
    assert row.covers >= 55 / 60  # 51 while ends stood still


def test_saturated_correct_predictions_have_a_positive_upper_end() -> None:
    # 200 of 200 certain predictions are right: with 3 errors in 200, that happens in 5% of cases.
    labels = torch.arange(200) % 10
    probs = torch.nn.functional.one_hot(labels, 10).double()
    value, low, high = M.interval("ece", probs, labels)
    assert (value, low) == (0, 0)
    assert 0.005 < high < 0.03


def test_weighted_means_have_the_quantiles_of_their_definition() -> None:
    from scipy.stats import beta

    for ones, count in ((1, 2), (1, 30), (7, 40), (1, 2000)):
        values = (np.arange(count) < ones).astype(float)
        for share in (0.001, 0.025, 0.975, 0.999):
            found = (weighted_mean_quantile(3 * values - 1, share) + 1) / 3
            below, above = beta(ones, count - ones).cdf(found), beta(ones, count - ones).sf(found)
            tail, expected = (below, share) if share < 0.5 else (above, 1 - share)
            assert tail == pytest.approx(expected, rel=0.08)
    values = np.random.default_rng(0).exponential(size=15)
    drawn = np.random.default_rng(1).dirichlet(np.ones(15), 200_000) @ values
    for share in (0.025, 0.3, 0.9, 0.975):
        assert (drawn < weighted_mean_quantile(values, share)).mean() == pytest.approx(
            share, abs=4e-3
        )


def test_mean_interval_allows_for_values_that_were_not_seen() -> None:
    values = torch.tensor([-1.0, 1.0] * 5000)
    half = 1.959964 / 100
    assert mean_interval(values, 0.95) == pytest.approx((-half, half), rel=1e-2)
    long_tail = torch.distributions.Exponential(1.0).icdf(torch.linspace(0.005, 0.995, 100))
    low, high = mean_interval(long_tail, 0.95)
    mean = float(long_tail.double().mean())
    assert high - mean > 1.2 * (mean - low)
    assert mean_interval(torch.full((100,), 0.25), 0.95) == (0.25, 0.25)
    # 100 right predictions: an error rate of 3.6 % would show none in 2.5 % of samples.
    right = torch.zeros(100)
    low, high = mean_interval(right, 0.95, unseen=(0.0, 5.0))
    assert (low, high) == (0, pytest.approx(5 * 0.0362, rel=0.02))


def test_losses_of_accurate_models_allow_for_errors() -> None:
    """None of 100 predictions is wrong, as with 1 % errors in 37 % of files."""
    probs = torch.tensor([[0.99, 0.01]]).repeat(100, 1)
    labels = torch.zeros(100, dtype=torch.int64)
    found = M.intervals(probs, labels, ["nll", "brier", "error"])
    for name, true in (("nll", 0.056), ("brier", 0.0198), ("error", 0.01)):
        _, low, high = found[name]
        assert 0 <= low < true < high < 5 * true
    assert M.direction(probs, labels).word == "neither"
    one_hot = torch.eye(3)[torch.arange(100) % 3]
    found = M.intervals(one_hot, torch.arange(100) % 3, ["brier", "error", "classwise_ece", "nll"])
    assert found["brier"][2] == pytest.approx(2 * found["error"][2], rel=0.02)
    assert found["classwise_ece"][2] == pytest.approx(found["brier"][2] / 3, rel=0.02)
    assert found["nll"][2] > 1


def test_aurocs_of_rare_classes_have_wide_intervals() -> None:
    """Three events that a model ranks highest do not show that it is perfect."""
    random = np.random.default_rng(0)
    event = np.concatenate([random.uniform(0, 0.1, 297), [0.5, 0.6, 0.7]])
    probs = torch.from_numpy(np.stack([1 - event, event], axis=1))
    labels = torch.arange(300).ge(297).long()
    value, low, high = M.interval("auroc", probs, labels)
    assert (value, high) == (1, 1)
    assert low < 0.7


def test_proportion_interval_is_exact() -> None:
    from scipy.stats import binom, binomtest

    for successes, count in ((0, 20), (3, 40), (40, 40)):
        expected = binomtest(successes, count).proportion_ci(method="exact")
        found = proportion_interval(successes / count, count, 0.95)
        assert found == pytest.approx((expected.low, expected.high), abs=1e-9)
    outcomes = np.arange(201)
    ends = np.array([proportion_interval(each / 200, 200, 0.95) for each in outcomes])
    for share in (0.005, 0.35695):
        covers = (ends[:, 0] <= share) & (share <= ends[:, 1])
        assert binom.pmf(outcomes, 200, share)[covers].sum() >= 0.95


def test_failure_auroc_interval_is_delongs_with_many_samples() -> None:
    # Variance of the placements, by loops.
    probs, labels = simulated("calibrated", 3, 5000).draw(4000, np.random.default_rng(0))
    confidence, predicted = probs.max(dim=1)
    right, wrong = confidence[predicted == labels], confidence[predicted != labels]
    wins = (right[:, None] > wrong).double() + (right[:, None] == wrong).double() / 2
    variance = wins.mean(1).var() / len(right) + wins.mean(0).var() / len(wrong)
    half, area = 1.959964 * float(variance) ** 0.5, float(wins.mean())
    value, low, high = M.interval("failure_auroc", probs, labels)
    assert value == pytest.approx(area)
    assert (low, high) == pytest.approx((area - half, area + half), abs=0.06 * half)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        *((name, "slightly overconfident") for name in ("auroc", "aurc", "e_aurc", "nll")),
        *((name, "slightly overconfident") for name in ("brier", "error")),
        *((name, "much overconfident, steps of .1") for name in ("aurc", "e_aurc")),
        *((name, "one confidence") for name in ("aurc", "e_aurc")),
    ],
)
def test_smooth_functions_have_the_width_of_the_bootstrap(name: str, law: str) -> None:
    probs, labels = simulated(law, 3, 4000).draw(1500, np.random.default_rng(0))
    _, low, high = M.interval(name, probs, labels)
    _, lower, higher = M.bootstrap(M.METRICS[name].function, probs, labels, num_resamples=300)
    assert high - low == pytest.approx(higher - lower, rel=0.17)


def test_metrics_without_an_interval_return_nan() -> None:
    probs, labels = simulated("calibrated", 3, 500).draw(50, np.random.default_rng(0))
    value, low, high = M.interval("mce", probs, labels)
    assert value == M.maximum_calibration_error(probs, labels)
    assert math.isnan(low) and math.isnan(high)
    assert all(math.isnan(end) for end in M.interval("ece", probs[:1], labels[:1])[1:])
    labels = probs.argmax(dim=1)  # no errors
    assert all(math.isnan(x) for x in M.interval("failure_auroc", probs, labels))


def test_wrong_arguments() -> None:
    probs, labels = torch.full((4, 2), 0.5), torch.tensor([0, 1, 1, 0])
    with pytest.raises(ValueError, match=r"got 'ecce' \(did you mean 'ece'"):
        M.interval("ecce", probs, labels)
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 95"):
        M.interval("ece", probs, labels, confidence=95)
    with pytest.raises(ValueError, match="each row of probs must sum to 1"):
        M.interval("ece", probs * 0.9, labels)


def test_population_values_of_laws() -> None:
    # If the labels are fixed, the population values are the metrics of the pool.
    law = simulated("much overconfident", 4, 500)
    labels = law.draw(500, np.random.default_rng(0))[1]
    real = replace(law, truth=np.eye(4)[labels.numpy()], is_real=True)
    probs = torch.from_numpy(law.probs)
    for name in set(WITH_INTERVAL) - {"kde_ece", "debiased_ece", "adaptive_ece", "smooth_ece"}:
        if name != "classwise_adaptive_ece":  # its bins are at quantiles of the law, not at ranks
            expected = M.METRICS[name].function(probs, labels)
            assert population_value(name, real) == pytest.approx(expected, rel=1e-9), name
    expected = M.smooth_calibration_error(probs, labels)
    assert population_value("smooth_ece", real) == pytest.approx(expected, rel=0.01)


def test_errors_of_accurate_models_end_far_from_1() -> None:
    """100 right predictions of .9913: a true error of 4 % would be seen."""
    probs = torch.tensor([[0.9913, 0.0087]], dtype=torch.float64).repeat(100, 1)
    labels = torch.zeros(100, dtype=torch.int64)
    for name in ("ece", "adaptive_ece", "debiased_ece", "classwise_ece"):
        _, low, high = M.interval(name, probs, labels)
        assert low == 0 and 0.02 < high < 0.08, name
    assert 0.02 < M.direction(probs, labels).over[2] < 0.04


def test_ece_covers_if_only_the_top_bin_is_wrong() -> None:
    """A line that gives calibrated bins gaps as well covers 80 to 85 %."""
    law = simulated("top bin wrong", 3, 20_000)
    truth, interval = intervals_of(law, ["ece"])["ece"]
    row = measure(law, "ece", interval, truth, 3000, repetitions=100, seed=1)
    assert row.covers >= 0.92


def test_masked_classes_do_not_change_the_calibration_part() -> None:
    """Without an error among the samples, the cost of one decides the lower end."""
    noise = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.arange(60) % 4
    logits = noise + 9 * torch.nn.functional.one_hot(labels, 4)
    found = M.nll_calibration(logits, 3 * logits, labels)
    assert found[1] < 0 < found[0] < found[2]
    masked = torch.nn.functional.pad(logits, (0, 1), value=-torch.inf)
    assert M.nll_calibration(masked, 3 * masked, labels) == pytest.approx(found)
