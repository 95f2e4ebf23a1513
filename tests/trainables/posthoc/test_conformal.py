"""Prediction sets: coverage on new samples, and the scores by hand."""

import math

import pytest
import torch
from torch import Tensor

from trainables.posthoc.conformal import SCORES, PredictionSets


def draw(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    logits = 1.5 * torch.randn(count, 8, generator=generator, dtype=torch.float64)
    probs = logits.softmax(dim=1)
    return probs, torch.multinomial(probs, 1, generator=generator)[:, 0]


@pytest.mark.parametrize("method", list(SCORES))
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_coverage_in_simulation(method: str, coverage: float) -> None:
    """Over repeated draws, also of few samples, sets reach the requested coverage."""
    generator = torch.Generator().manual_seed(0)
    held = []
    for _ in range(200):
        sets = PredictionSets(method, coverage).fit(*draw(60, generator))  # type: ignore[arg-type]
        probs, labels = draw(500, generator)
        held.append(sets(probs).gather(1, labels[:, None]).double().mean())
    mean = torch.stack(held).mean()
    error = torch.stack(held).std() / math.sqrt(len(held))
    assert mean > coverage - 3 * error
    # Split conformal sets cover by at most 1 / (n + 1) too often; the most likely class, which is
    # always in, adds a little to randomised ones.
    assert mean < coverage + 1 / 61 + 3 * error + (0 if method == "lac" else 0.04)


def test_scores_by_hand() -> None:
    probs = torch.tensor([[0.1, 0.6, 0.3]], dtype=torch.float64)
    whole, half = torch.ones(1, 1), torch.full((1, 1), 0.5)
    torch.testing.assert_close(SCORES["lac"](probs, half), 1 - probs)
    expected = torch.tensor([[1.0, 0.6, 0.9]], dtype=torch.float64)
    torch.testing.assert_close(SCORES["aps"](probs, whole), expected)
    torch.testing.assert_close(SCORES["aps"](probs, half), expected - probs / 2)
    eight = torch.tensor([[0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.04, 0.02]], dtype=torch.float64)
    extra = torch.tensor([[0, 0, 0, 0, 0, 0.01, 0.02, 0.03]], dtype=torch.float64)
    torch.testing.assert_close(SCORES["raps"](eight, half), SCORES["aps"](eight, half) + extra)


def test_scores_of_torchcp() -> None:
    """APS and RAPS of TorchCP 1.2.1, whose random number u is one less ours."""
    probs = torch.tensor([[0.04, 0.3, 0.1, 0.2, 0.02, 0.12, 0.15, 0.07]], dtype=torch.float64)
    noise = torch.full((1, 1), 1 - 0.25, dtype=torch.float64)
    aps = torch.tensor([[0.97, 0.225, 0.845, 0.45, 0.995, 0.74, 0.6125, 0.9225]])
    raps = torch.tensor([[0.99, 0.225, 0.845, 0.45, 1.025, 0.74, 0.6125, 0.9325]])
    torch.testing.assert_close(SCORES["aps"](probs, noise), aps.double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(SCORES["raps"](probs, noise), raps.double(), atol=1e-6, rtol=0)


def test_the_threshold_is_the_corrected_quantile_and_few_samples_give_full_sets() -> None:
    probs = torch.tensor([[p, 1 - p] for p in (0.9, 0.8, 0.7, 0.6)], dtype=torch.float64)
    labels = torch.zeros(4, dtype=torch.int64)
    # Rank ceil(5 · 0.8) = 4 of the scores 0.1, 0.2, 0.3, 0.4.
    assert PredictionSets("lac", 0.8).fit(probs, labels).threshold == pytest.approx(0.4)
    full = PredictionSets("lac", 0.9).fit(probs, labels)
    assert full.threshold == math.inf
    assert full(probs).all()


def test_a_set_is_never_empty_and_bad_values_are_refused() -> None:
    certain = torch.tensor([[1.0, 0.0]] * 50)
    sets = PredictionSets("lac", 0.5).fit(certain, torch.zeros(50, dtype=torch.int64))
    assert sets(torch.tensor([[0.5, 0.5]])).sum() == 1
    with pytest.raises(ValueError, match="method must be one of lac, aps, raps, got 'best'"):
        PredictionSets("best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\), got 90"):
        PredictionSets("lac", 90)
    with pytest.raises(RuntimeError, match="call fit first"):
        PredictionSets()(certain)


@pytest.mark.parametrize(("coverage", "rank"), [(0.55, 55), (0.56, 56), (0.07, 7), (0.9, 90)])
def test_the_rank_is_computed_exactly(coverage: float, rank: int) -> None:
    """In floats, 100 · .55 = 55.00000000000001, and 100 · .07 = 7.000000000000001."""
    probs = torch.linspace(0.99, 0.01, 99, dtype=torch.float64)
    pairs = torch.stack([probs, 1 - probs], dim=1)
    sets = PredictionSets("lac", coverage).fit(pairs, torch.zeros(99, dtype=torch.int64))
    assert sets.threshold == pytest.approx(rank / 100)
