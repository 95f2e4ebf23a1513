"""The coverage of intervals of differences, over samples and seeds."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from trainables import metrics as M
from trainables.metrics.inference.intervals import nll_reductions
from trainables.posthoc import TemperatureScaling

CLASSES = 5


def drawn(seed: int, samples: int, *factors: float) -> tuple[list[Tensor], Tensor]:
    """Probabilities of runs on the same samples, with logits too large by these factors."""
    generator = torch.Generator().manual_seed(seed)
    honest = 1.5 * torch.randn(samples, CLASSES, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(honest, 1), 1, generator=generator)[:, 0]
    return [torch.softmax(factor * honest, dim=1) for factor in factors], labels


def seeds(generator: np.random.Generator, factor: float) -> list[float]:
    """The same recipe, trained with two seeds."""
    return [factor * (1 + 0.03 * generator.standard_normal()) for _ in range(2)]


@cache
def truth(factor: float) -> float:
    """The expected ECE of a recipe."""
    spread = stats.norm.ppf((np.arange(5) + 0.5) / 5)
    runs, labels = drawn(99, 50_000, *(factor * (1 + 0.03 * z) for z in spread))
    return float(np.mean([M.expected_calibration_error(run, labels) for run in runs]))


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "theirs"), [(1.0, 1.0), (1.0, 1.3), (1.3, 1.3)])
def test_the_interval_of_ece_covers_with_few_false_verdicts(ours: float, theirs: float) -> None:
    generator, repetitions = np.random.default_rng(0), 40
    expected = truth(ours) - truth(theirs)
    covered = said_wrong = 0
    for seed in range(repetitions):
        factors = [*seeds(generator, ours), *seeds(generator, theirs)]
        runs, labels = drawn(seed, 800, *factors)
        found = M.difference("ece", runs[:2], runs[2:], labels)
        covered += found.low <= expected <= found.high
        wrong = ("worse",) if expected < 0 else ("worse", "supported")
        said_wrong += found.verdict in wrong
    assert covered >= 0.9 * repetitions
    assert said_wrong <= 0.1 * repetitions


@pytest.mark.slow
def test_it_covers_for_an_overconfident_and_an_underconfident_setting() -> None:
    # Noise moves their errors in opposite directions.
    generator, repetitions = np.random.default_rng(0), 100
    expected = truth(0.75) - truth(1.3)
    covered = 0
    for seed in range(repetitions):
        runs, labels = drawn(seed, 500, *seeds(generator, 0.75), *seeds(generator, 1.3))
        found = M.difference("ece", runs[:2], runs[2:], labels)
        covered += found.low <= expected <= found.high
    assert covered >= 0.9 * repetitions


def test_a_large_difference_is_supported_and_its_reverse_is_worse() -> None:
    runs, labels = drawn(0, 3000, 1.0, 1.02, 2.0, 2.05)
    better = M.difference("ece", runs[:2], runs[2:], labels)
    assert better.verdict == "supported"
    assert better.low <= better.value <= better.high < 0
    worse = M.difference("ece", runs[2:], runs[:2], labels)
    assert worse.verdict == "worse"
    assert worse.value == pytest.approx(-better.value)
    accuracy = M.difference("accuracy", runs[:2], [run.flip(1) for run in runs[2:]], labels)
    assert accuracy.verdict == "supported"  # where higher is better
    assert accuracy.low > 0


def test_with_one_run_each_a_mean_has_the_paired_interval() -> None:
    (ours, theirs), labels = drawn(1, 2000, 1.0, 1.4)
    found = M.difference("nll", [ours], [theirs], labels)
    rows = torch.arange(len(labels))
    paired = (theirs[rows, labels].log() - ours[rows, labels].log()).numpy()
    expected = stats.norm.interval(0.95, paired.mean(), paired.std(ddof=1) / len(paired) ** 0.5)
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.value == pytest.approx(paired.mean())


def test_seed_variance_and_candidates_widen_the_interval() -> None:
    runs, labels = drawn(2, 1000, 1.0, 1.01, 1.3, 1.31)
    unlike, _ = drawn(2, 1000, 0.8, 1.2, 1.1, 1.5)
    for metric in ("ece", "nll"):
        close = M.difference(metric, runs[:2], runs[2:], labels)
        wide = M.difference(metric, unlike[:2], unlike[2:], labels)
        assert wide.high - wide.low > close.high - close.low
        many = M.difference(metric, runs[:2], runs[2:], labels, candidates=40)
        assert many.low < close.low <= close.high < many.high
        # Other settings help to estimate the seed variance: the interval of few runs is narrower.
        helped = M.difference(metric, unlike[:2], unlike[2:], labels, others=[runs[:2], runs[2:]])
        assert helped.high - helped.low < wide.high - wide.low


def test_a_difference_to_itself_is_zero() -> None:
    (run,), labels = drawn(3, 500, 1.2)
    for metric in {*M.COMPARABLE} - {"event_ece"}:
        found = M.difference(metric, [run], [run], labels)
        assert found.value == 0
        assert found.verdict == "not supported"


def test_what_cannot_be_compared_is_refused() -> None:
    (run,), labels = drawn(4, 50, 1.0)
    with pytest.raises(ValueError, match="name must be one of ece, adaptive_ece, event_ece, nll"):
        M.difference("mce", [run], [run], labels)
    with pytest.raises(ValueError, match="event_ece is defined for two classes, not"):
        M.difference("event_ece", [run], [run], labels)
    with pytest.raises(ValueError, match="theirs must hold at least one run"):
        M.difference("ece", [run], [], labels)
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 95"):
        M.difference("ece", [run], [run], labels, confidence=95)


def test_seeds_are_corrected_for_finalists_and_samples_for_candidates() -> None:
    unlike, labels = drawn(2, 1000, 0.8, 1.2, 1.1, 1.5)  # their seeds differ
    alike, _ = drawn(2, 1000, 1.0, 1.01, 1.3, 1.31)

    def low(runs: list[Tensor], **more: Any) -> float:
        return M.difference("nll", runs[:2], runs[2:], labels, candidates=40, **more).low

    assert low(unlike) < 1.5 * low(unlike, finalists=2)
    assert low(alike, finalists=2) < low(alike, finalists=2, fresh_samples=True)
    with pytest.raises(ValueError, match="finalists must be at most candidates = 2, got 3"):
        M.difference("nll", alike[:2], alike[2:], labels, candidates=2, finalists=3)


def test_a_difference_of_means_is_that_of_its_values_per_sample() -> None:
    runs, labels = drawn(0, 600, 1.0, 1.1, 1.4, 1.5, 0.8, 0.9)
    losses = [-run[torch.arange(600), labels].log() for run in runs]
    how: dict[str, Any] = {"candidates": 9, "finalists": 2, "confidence": 0.9}
    expected = M.difference("nll", runs[:2], runs[2:4], labels, others=[runs[4:]], **how)
    found = M.mean_difference("nll", losses[:2], losses[2:4], others=[losses[4:]], **how)
    assert found.verdict == expected.verdict
    assert (found.value, found.low, found.high) == pytest.approx(
        (expected.value, expected.low, expected.high), abs=1e-9
    )
    how["clusters"] = torch.arange(600) // 3
    pixels = M.mean_difference("nll", losses[:2], losses[2:4], **how)
    same = M.difference("nll", runs[:2], runs[2:4], labels, **how)
    assert pixels.clusters == 200
    assert pixels.low == pytest.approx(same.low, abs=1e-9)


def test_a_difference_of_means_needs_the_same_samples() -> None:
    with pytest.raises(ValueError, match="values of the same samples"):
        M.mean_difference("nll", [torch.zeros(4)], [torch.zeros(5)])


def test_the_chance_of_support_is_calibrated() -> None:
    """For settings with widely varying true differences, going from two runs to six."""
    generator, repetitions = np.random.default_rng(0), 600
    chances, supported = [], []
    for _ in range(repetitions):
        samples = 0.5 * generator.standard_normal(60)
        true = 3 * generator.standard_normal()
        runs = [samples + generator.standard_normal() for _ in range(6)]
        theirs = [samples + true + generator.standard_normal() for _ in range(6)]
        ours, baseline = [torch.from_numpy(r) for r in runs], [torch.from_numpy(r) for r in theirs]
        found = M.mean_difference("nll", ours[:2], baseline[:2], confidence=0.99, candidates=5)
        chances.append(M.chance_of_support(found, 6, candidates=5))
        supported.append(
            M.mean_difference("nll", ours, baseline, candidates=5).verdict == "supported"
        )
    order = np.argsort(chances)
    for part in np.array_split(order, 3):
        expected = float(np.mean(np.array(chances)[part]))
        assert np.mean(np.array(supported)[part]) == pytest.approx(expected, abs=0.1)
    assert np.min(chances) < 0.1
    assert np.max(chances) > 0.9


def test_the_chance_of_support_of_a_calibration_error() -> None:
    """Seeds that differ may change the verdict; if seeds agree, only sampling noise remains."""
    unlike, labels = drawn(1, 4000, 1.0, 1.1, 1.4, 1.6)
    alike, _ = drawn(1, 4000, 1.0, 1.001, 1.03, 1.031)

    def chance(runs: list[Tensor]) -> float:
        found = M.difference("ece", runs[:2], runs[2:], labels)
        assert found.verdict == "not supported"
        return M.chance_of_support(found, 8)

    assert chance(unlike) > 0.5
    assert chance(alike) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs", "noise", "samples"),
    [
        (1.0, 1.0, 0.0, 300),
        (1.0, 1.25, 0.05, 300),
        (0.8, 1.25, 0.05, 300),
        (0.8, 1.25, 0.0, 3000),
    ],
)
def test_the_interval_of_the_calibration_part_covers(
    ours: float, theirs: float, noise: float, samples: int
) -> None:
    """Of one setting and of a difference; also with few samples, and with label noise.

    Temperatures are fixed.
    """
    repetitions = 400

    def predictions(seed: int, count: int) -> tuple[list[Tensor], Tensor]:
        (run,), labels = drawn(seed, count, 1.0)
        generator = torch.Generator().manual_seed(seed)
        wrong = torch.rand(count, generator=generator) < noise
        labels = torch.where(wrong, torch.randint(CLASSES, (count,), generator=generator), labels)
        own = 0.3 * torch.randn(2, count, CLASSES, generator=generator, dtype=torch.float64)
        return [f * (run.log() + e) for f, e in zip((ours, theirs), own, strict=True)], labels

    validation = predictions(10_001, samples)
    temperatures = [TemperatureScaling().fit(z, validation[1]).temperature for z in validation[0]]

    def parts(seed: int, count: int) -> tuple[list[Tensor], tuple[float, float, float]]:
        logits, labels = predictions(seed, count)
        scaled = [z / t for z, t in zip(logits, temperatures, strict=True)]
        reductions = [nll_reductions(*each, labels) for each in zip(logits, scaled, strict=True)]
        return reductions, M.nll_calibration(logits[1], scaled[1], labels)

    (a, b), (of_theirs, *_) = parts(10_000, 1_000_000)
    expected = float((a - b).mean())
    covered = covered_alone = 0
    for seed in range(repetitions):
        (a, b), (_, low, high) = parts(seed, samples)
        found = M.mean_difference("nll_calibration", [a], [b])
        covered += found.low <= expected <= found.high
        covered_alone += low <= of_theirs <= high
    assert min(covered, covered_alone) >= 0.92 * repetitions, (covered, covered_alone)
