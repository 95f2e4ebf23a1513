"""Cross-fitting: samples are not evaluated on their own fit."""

import math
from typing import Self

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainables import metrics as M
from trainables.posthoc import TemperatureScaling, cross_fitted


def drawn(samples: int, seed: int = 0, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    """Logits that are too large by ``scale``, and labels."""
    generator = torch.Generator().manual_seed(seed)
    honest = torch.randn(samples, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(honest, dim=1), 1, generator=generator)[:, 0]
    return scale * honest, labels


class Memory:
    """Memorises the labels of the fit, and does not change other samples."""

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        self.known = {tuple(row.tolist()): int(y) for row, y in zip(logits, labels, strict=True)}
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        calibrated = logits.clone()
        for row in calibrated:
            if (label := self.known.get(tuple(row.tolist()))) is not None:
                row.fill_(-100.0)[label] = 100.0
        return calibrated


@given(samples=st.integers(2, 60), seed=st.integers(0, 5))
def test_no_sample_is_calibrated_by_its_own_label(samples: int, seed: int) -> None:
    logits, labels = drawn(samples)
    assert torch.equal(cross_fitted(logits, labels, Memory, seed), logits)
    assert M.accuracy(torch.softmax(Memory().fit(logits, labels)(logits), 1), labels) == 1


class Counts:
    """Predicts the class counts of the fit."""

    name = "counts"

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        self.found = labels.bincount(minlength=logits.shape[1]) + 1.0
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        return self.found.log().to(logits).expand_as(logits)


@pytest.mark.parametrize("num_folds", [2, 5])
def test_counts_of_other_folds_do_not_predict_those_of_a_fold(num_folds: int) -> None:
    """All classes are equally likely, so counts are of no use: the loss is above ln K."""
    draw, classes, losses = torch.Generator().manual_seed(0), 20, []
    for seed in range(20):
        labels = torch.randint(classes, (200,), generator=draw)
        crossed = cross_fitted(torch.zeros(200, classes), labels, Counts, seed, num_folds=num_folds)
        losses.append(M.evaluate(crossed, labels, ["nll"])["nll"])
    assert sum(losses) / 20 > math.log(classes)


def test_cross_fitted_metrics_match_new_data() -> None:
    """On 30 samples, a temperature fitted on them is optimistic; cross-fitting is not."""
    flattered, honest, fresh = 0.0, 0.0, 0.0
    for seed in range(200):
        logits, labels = drawn(60, seed)
        scaler = TemperatureScaling().fit(logits, labels)
        flattered += M.negative_log_likelihood(torch.softmax(scaler(logits), 1), labels) / 200
        crossed = cross_fitted(logits, labels)
        honest += M.negative_log_likelihood(torch.softmax(crossed, 1), labels) / 200
        new = drawn(2000, seed + 10_000)
        half = TemperatureScaling().fit(logits[:30], labels[:30])
        fresh += M.negative_log_likelihood(torch.softmax(half(new[0]), 1), new[1]) / 200
    assert flattered < honest - 0.01
    assert honest == pytest.approx(fresh, abs=0.02)


def test_the_dtype_stays_and_wrong_input_is_refused() -> None:
    logits, labels = drawn(20)
    assert cross_fitted(logits.float(), labels).dtype == torch.float32
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        cross_fitted(logits[:1], labels[:1])
