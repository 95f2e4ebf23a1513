"""Temperature scaling and Meta-Cal."""

import math
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from torch import Tensor

from trainables import metrics as M
from trainables.posthoc import MetaCalibration, TemperatureScaling


def make_predictions(
    temperature: float, num_samples: int = 3000, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Float64 logits (N, 8), and labels drawn from their softmax at `temperature`."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(num_samples, 8, generator=generator, dtype=torch.float64)
    probs = torch.softmax(logits / temperature, dim=1)
    return logits, torch.multinomial(probs, 1, generator=generator)[:, 0]


@pytest.fixture
def logits() -> Tensor:
    return make_predictions(1.7)[0]


@pytest.fixture
def labels() -> Tensor:
    return make_predictions(1.7)[1]


def nll_at(log_temperature: float, logits: Tensor, labels: Tensor) -> float:
    return float(torch.nn.functional.cross_entropy(logits / math.exp(log_temperature), labels))


def log_prior(log_temperature: float) -> float:
    """ln T ~ N(0, 0.5^2), up to a constant."""
    return -(log_temperature**2) / 0.5


@settings(max_examples=20, deadline=None)
@given(
    st.floats(0.2, 5.0),
    st.integers(0, 100),
    st.integers(20, 300),
    st.sampled_from(["nll", "nll_unpenalised"]),
)
def test_nll_temperature_is_the_minimum(
    temperature: float, seed: int, count: int, criterion: Literal["nll", "nll_unpenalised"]
) -> None:
    logits, labels = make_predictions(temperature, count, seed)

    def objective(log_temperature: float) -> float:
        prior = log_prior(log_temperature) if criterion == "nll" else 0.0
        return nll_at(log_temperature, logits, labels) - prior / count

    scaler = TemperatureScaling(criterion).fit(logits, labels)
    found = minimize_scalar(
        objective,
        bounds=(math.log(0.05), math.log(100)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    if not scaler.at_bound:
        assert scaler.temperature == pytest.approx(math.exp(found.x), rel=1e-5)
    assert scaler.at_bound == (scaler.temperature in (0.05, 100))


def test_few_errors_among_a_few_hundred_samples_do_no_harm() -> None:
    """An accurate network, calibrated: a pure fit to 200 samples raises the NLL, the prior less."""
    draw, harm = torch.Generator().manual_seed(0), {"nll": 0.0, "nll_unpenalised": 0.0}
    for _ in range(40):
        truth = torch.randn(5200, 10, generator=draw, dtype=torch.float64)
        truth[torch.arange(5200), torch.arange(5200) % 10] += 10
        labels = torch.multinomial(truth.softmax(1), 1, generator=draw)[:, 0]
        for criterion in harm:
            scaler = TemperatureScaling(criterion).fit(truth[:200], labels[:200])  # type: ignore[arg-type]
            before, after = (
                M.evaluate(z, labels[200:], ["nll"])["nll"]
                for z in (truth[200:], scaler(truth[200:]))
            )
            harm[criterion] += (after - before) / 40
    assert 0 <= harm["nll"] < harm["nll_unpenalised"] / 4


@pytest.mark.parametrize("criterion", ["nll", "ece"])
def test_the_temperature_of_the_data_is_found(
    criterion: Literal["nll", "ece"], logits: Tensor, labels: Tensor
) -> None:
    scaler = TemperatureScaling(criterion).fit(logits, labels)
    assert scaler.temperature == pytest.approx(1.7, rel=0.1)
    before = M.evaluate(logits, labels, ["ece", "accuracy"])
    after = M.evaluate(scaler(logits), labels, ["ece", "accuracy"])
    assert after["ece"] < before["ece"] / 2
    assert after["accuracy"] == before["accuracy"]


def test_ece_temperature_is_the_first_best_of_the_grid(logits: Tensor, labels: Tensor) -> None:
    grid = [round(0.1 * i, 1) for i in range(1, 101)]
    errors = [M.expected_calibration_error(torch.softmax(logits / t, dim=1), labels) for t in grid]
    scaler = TemperatureScaling("ece_grid").fit(logits, labels)
    assert scaler.temperature == TemperatureScaling("ece").fit(logits, labels).temperature
    assert scaler.temperature == pytest.approx(grid[int(np.argmin(errors))])
    assert not scaler.at_bound


def test_first_of_equal_temperatures_is_taken() -> None:
    # Certain at every temperature of the grid: all have the same ECE.
    logits = torch.tensor([[1e5, 0.0]])
    scaler = TemperatureScaling("ece").fit(logits, torch.tensor([1]))
    assert scaler.temperature == pytest.approx(0.1)
    assert scaler.at_bound


@pytest.mark.parametrize("scale", [2.0, 1e4])
def test_all_right_drives_the_temperature_to_its_lower_bound(scale: float) -> None:
    scaler = TemperatureScaling("nll_unpenalised").fit(scale * torch.eye(3), torch.arange(3))
    assert (scaler.temperature, scaler.at_bound) == (0.05, True)


def test_all_wrong_drives_the_temperature_to_its_upper_bound() -> None:
    scaler = TemperatureScaling("nll_unpenalised").fit(2 * torch.eye(3), torch.tensor([1, 2, 0]))
    assert (scaler.temperature, scaler.at_bound) == (100, True)


def test_probabilities_are_refused_unless_they_are_meant(logits: Tensor, labels: Tensor) -> None:
    probs = logits.softmax(1)
    with pytest.raises(ValueError, match=r"look like probabilities.*probabilities_as_logits=True"):
        TemperatureScaling().fit(probs, labels)
    meant = TemperatureScaling(probabilities_as_logits=True).fit(probs, labels)
    shifted = TemperatureScaling().fit(probs + 1, labels)  # the same probabilities
    assert meant.temperature == pytest.approx(shifted.temperature)


def test_constant_logits_keep_temperature_one() -> None:
    scaler = TemperatureScaling().fit(torch.ones(4, 3), torch.tensor([0, 1, 2, 0]))
    assert (scaler.temperature, scaler.at_bound) == (1, False)


def test_blocks_of_rows_do_not_change_temperatures(
    logits: Tensor, labels: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [TemperatureScaling(c).fit(logits, labels).temperature for c in ("nll", "ece")]
    monkeypatch.setattr("trainables.metrics._inputs._ROW_BLOCK_ELEMENTS", 1000)
    parts = [TemperatureScaling(c).fit(logits, labels).temperature for c in ("nll", "ece")]
    assert parts == pytest.approx(whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_scaled_logits_keep_dtype_and_gradient(
    dtype: torch.dtype, logits: Tensor, labels: Tensor
) -> None:
    scaler = TemperatureScaling().fit(logits.to(dtype), labels)
    rough = logits.to(dtype).requires_grad_()
    scaled = scaler(rough)
    assert scaled.dtype == dtype
    assert scaled.requires_grad
    assert scaler.temperature == pytest.approx(1.7, rel=0.1)


def test_miscoverage_is_kept(logits: Tensor, labels: Tensor) -> None:
    calibrator = MetaCalibration("miscoverage", 0.2).fit(logits, labels)
    fresh, fresh_labels = make_predictions(1.7, 20_000, seed=1)
    right = fresh.argmax(dim=1) == fresh_labels
    replaced = ~calibrator.covers(fresh)
    assert float(replaced[right].double().mean()) == pytest.approx(0.2, abs=0.05)


def test_coverage_accuracy_is_kept(logits: Tensor, labels: Tensor) -> None:
    calibrator = MetaCalibration("coverage_accuracy", 0.7).fit(logits, labels)
    fresh, fresh_labels = make_predictions(1.7, 20_000, seed=1)
    covered = calibrator.covers(fresh)
    right = fresh.argmax(dim=1) == fresh_labels
    assert float(right[covered].double().mean()) == pytest.approx(0.7, abs=0.06)
    assert float(right.double().mean()) < 0.6  # the constraint is active


def test_likely_wrong_predictions_become_uniform(logits: Tensor, labels: Tensor) -> None:
    calibrator = MetaCalibration("miscoverage", 0.1).fit(logits, labels)
    log_probs = torch.log_softmax(logits, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1)
    kept = entropy < calibrator.threshold
    assert torch.equal(calibrator.covers(logits), kept)
    assert 0 < kept.double().mean() < 1
    probs = torch.softmax(calibrator(logits), dim=1)
    torch.testing.assert_close(probs[~kept], torch.full_like(probs[~kept], 1 / 8))
    expected = torch.softmax(logits[kept] / calibrator.temperature, dim=1)
    torch.testing.assert_close(probs[kept], expected)


@pytest.mark.parametrize(
    ("constraint", "level"), [("miscoverage", 0.1), ("coverage_accuracy", 0.7)]
)
def test_threshold_is_that_of_the_authors_procedure(
    constraint: Literal["miscoverage", "coverage_accuracy"],
    level: float,
    logits: Tensor,
    labels: Tensor,
) -> None:
    from scipy.stats import entropy
    from sklearn.isotonic import IsotonicRegression
    from sklearn.model_selection import train_test_split

    right = (logits.argmax(dim=1) == labels).numpy()
    scores = entropy(torch.softmax(logits, dim=1).numpy(), axis=1)
    pool = np.flatnonzero(right) if constraint == "miscoverage" else np.arange(len(labels))
    ranking, rest = train_test_split(pool, train_size=min(len(pool) // 10, 500), random_state=5)
    if constraint == "miscoverage":
        expected = np.quantile(scores[ranking], 1 - level, method="higher")
        rest = np.r_[rest, np.flatnonzero(~right)]
    else:
        cuts = np.quantile(scores[ranking], np.linspace(0, 1, 21))
        bins = [
            ranking[(scores[ranking] > low) & (scores[ranking] <= high)]
            for low, high in pairwise(cuts)
        ]
        running = np.cumsum([right[b].mean() for b in bins]) / np.arange(1, 21)
        model = IsotonicRegression(increasing=False).fit(running, [scores[b].mean() for b in bins])
        expected = model.predict([level])[0]
    calibrator = MetaCalibration(constraint, level, seed=5).fit(logits, labels)
    assert calibrator.threshold == pytest.approx(expected)
    kept = rest[scores[rest] < expected]
    scaler = TemperatureScaling().fit(logits[kept], labels[kept])
    assert calibrator.temperature == pytest.approx(scaler.temperature)


@pytest.mark.parametrize("level", [0.9, 0.999])
def test_coverage_accuracy_if_all_ranked_predictions_are_correct(level: float) -> None:
    # Nearly saturated, as on MNIST: every threshold has an accuracy of 1, and the authors' code
    # returns the mean entropy of the bins.
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (2000,), generator=generator)
    logits = torch.randn(2000, 10, generator=generator, dtype=torch.float64)
    logits[torch.arange(2000), labels] += 12
    calibrator = MetaCalibration("coverage_accuracy", level).fit(logits, labels)
    _, ranking = np.split(np.random.RandomState(0).permutation(2000), [1800])
    log_probs = torch.log_softmax(logits[ranking], dim=1)
    scores = np.sort(-(log_probs.exp() * log_probs).sum(dim=1).numpy())
    cuts = np.quantile(scores, np.linspace(0, 1, 21))
    inside = [scores[(scores > low) & (scores <= high)].mean() for low, high in pairwise(cuts)]
    assert calibrator.threshold == pytest.approx(np.mean(inside))
    assert calibrator.covers(logits).double().mean() > 0.5


def test_masked_classes(logits: Tensor, labels: Tensor) -> None:
    possible = TemperatureScaling().fit(logits, labels)
    ruled_out = torch.cat([logits, torch.full((len(logits), 1), -math.inf)], dim=1)
    for criterion in ("nll", "ece"):
        plain = TemperatureScaling(criterion).fit(logits, labels)  # type: ignore[arg-type]
        scaler = TemperatureScaling(criterion).fit(ruled_out, labels)  # type: ignore[arg-type]
        assert scaler.temperature == pytest.approx(plain.temperature)
    scaled = TemperatureScaling().fit(ruled_out, labels)(ruled_out)
    torch.testing.assert_close(scaled[:, :8], possible(logits))
    MetaCalibration("miscoverage", 0.1).fit(ruled_out, labels)
    with pytest.raises(ValueError, match="logit of the label must be finite, got -inf for 1"):
        TemperatureScaling().fit(ruled_out, torch.cat([labels[1:], torch.tensor([8])]))


def test_seed_decides_the_split(logits: Tensor, labels: Tensor) -> None:
    thresholds = [
        MetaCalibration("miscoverage", 0.1, seed=seed).fit(logits, labels).threshold
        for seed in (0, 0, 1)
    ]
    assert thresholds[0] == thresholds[1] != thresholds[2]


def test_wrong_options() -> None:
    with pytest.raises(
        ValueError, match="criterion must be one of nll, nll_unpenalised, ece_grid, ece, got 'acc'"
    ):
        TemperatureScaling("acc")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="constraint must be one of miscoverage, coverage_acc"):
        MetaCalibration("risk", 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_wrong_level(level: float) -> None:
    with pytest.raises(ValueError, match=rf"level must be in \(0, 1\), got {level}"):
        MetaCalibration("miscoverage", level)


def test_use_before_fit() -> None:
    with pytest.raises(RuntimeError, match="TemperatureScaling has no parameters yet: call fit"):
        TemperatureScaling()(torch.zeros(1, 2))
    with pytest.raises(RuntimeError, match="TemperatureScaling has no parameters yet: call fit"):
        _ = TemperatureScaling().at_bound
    with pytest.raises(RuntimeError, match="MetaCalibration has no parameters yet: call fit"):
        MetaCalibration()(torch.zeros(1, 2))


def test_data_that_cannot_be_fitted(logits: Tensor, labels: Tensor) -> None:
    with pytest.raises(ValueError, match="logits must be finite"):
        TemperatureScaling().fit(logits * math.nan, labels)
    wrong = (logits.argmax(dim=1) + 1) % 8
    with pytest.raises(ValueError, match="at least 10 correctly classified samples, got 0"):
        MetaCalibration("miscoverage", 0.1).fit(logits, wrong)
    with pytest.raises(ValueError, match="at least 10 samples, got 9"):
        MetaCalibration("coverage_accuracy", 0.5).fit(logits[:9], labels[:9])
    with pytest.raises(ValueError, match=r"coverage_accuracy 0.01 cannot be reached on these data"):
        MetaCalibration("coverage_accuracy", 0.01).fit(logits, labels)
    # All samples are equal, so none lies below the threshold.
    with pytest.raises(ValueError, match="no sample has an entropy below the threshold"):
        MetaCalibration("miscoverage", 0.5).fit(
            logits[:1].repeat(100, 1), logits[:1].argmax(1).repeat(100)
        )
