"""Losses with state: from validation, from training samples, or parameters."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trainables.losses import CalibrationLoss, make_loss

BuildLoss = Callable[..., CalibrationLoss]


def state(loss: CalibrationLoss) -> dict[str, Tensor]:
    return dict(loss.named_buffers())


def logits_at_distance(*distances: float) -> Tensor:
    """One row: the largest logit, and others at these distances below it."""
    return -torch.tensor([[0.0, *distances]], dtype=torch.float64)


@pytest.fixture
def alm() -> CalibrationLoss:
    return make_loss("cals_alm", 3, margin=10, period=2, growth=1.5).double()


ANY_LABEL = torch.zeros(1, dtype=torch.int64)


def test_multipliers_become_the_mean_slope(alm: CalibrationLoss) -> None:
    # h = d/m − 1 = −1, 1, 2; PHR' = max(0, λ + ρh), clipped to [1e-6, 1e6].
    alm.on_validation_end(logits_at_distance(20, 30), ANY_LABEL)
    assert state(alm)["lam"].tolist() == pytest.approx([1e-6, 1 + 1e-6, 2 + 1e-6])
    alm.on_validation_end(logits_at_distance(20, 10), ANY_LABEL)
    assert state(alm)["lam"].tolist() == pytest.approx([1e-6, 2 + 1e-6, 2 + 1e-6])


def test_multipliers_are_updated_in_inference_mode_too(alm: CalibrationLoss) -> None:
    with torch.inference_mode():
        alm.on_validation_end(logits_at_distance(20, 30), ANY_LABEL)
    assert state(alm)["lam"].tolist() == pytest.approx([1e-6, 1 + 1e-6, 2 + 1e-6])
    logits = logits_at_distance(20, 30).requires_grad_()
    alm(logits, ANY_LABEL).backward()
    assert logits.grad is not None


def test_slopes_are_clipped_per_sample(alm: CalibrationLoss) -> None:
    logits = torch.cat([logits_at_distance(0, 0), logits_at_distance(40, 40)])
    alm.on_validation_end(logits, torch.zeros(2, dtype=torch.int64))
    assert state(alm)["lam"].tolist() == pytest.approx([1e-6, 1.5, 1.5], rel=1e-5)


def test_rho_grows_where_a_violated_constraint_stays(alm: CalibrationLoss) -> None:
    alm.on_validation_end(logits_at_distance(20, 20), ANY_LABEL)
    assert state(alm)["rho"].tolist() == [1, 1, 1]
    # Class 1 stays at h = 1, class 2 falls to h = 0.8 <= 0.9.
    alm.on_validation_end(logits_at_distance(20, 18), ANY_LABEL)
    assert state(alm)["rho"].tolist() == pytest.approx([1, 1.5, 1])


def test_rho_is_updated_every_period_and_against_the_epoch_before(alm: CalibrationLoss) -> None:
    for distance in (20, 20, 20):
        alm.on_validation_end(logits_at_distance(distance, 0), ANY_LABEL)
    assert state(alm)["rho"].tolist() == pytest.approx([1, 1.5, 1])
    alm.on_validation_end(logits_at_distance(15, 0), ANY_LABEL)  # h fell from 1 to 0.5
    assert state(alm)["rho"].tolist() == pytest.approx([1, 1.5, 1])


def test_rho_never_changes_in_the_first_epoch() -> None:
    loss = make_loss("cals_alm", 3, margin=10, period=1).double()
    loss.on_validation_end(logits_at_distance(20, 20), ANY_LABEL)
    assert state(loss)["rho"].tolist() == [1, 1, 1]
    loss.on_validation_end(logits_at_distance(20, 20), ANY_LABEL)
    assert state(loss)["rho"].tolist() == pytest.approx([1, 1.2, 1.2])


def test_rho_stops_at_ten() -> None:
    loss = make_loss("cals_alm", 3, margin=10, period=1, growth=2).double()
    for _ in range(7):
        loss.on_validation_end(logits_at_distance(20, 0), ANY_LABEL)
    assert state(loss)["rho"].tolist() == pytest.approx([1, 10, 1])


@pytest.mark.parametrize(("start", "after"), [(0.1, 0.12), (9, 10), (20, 20)])
def test_rho_grows_from_where_it_starts(start: float, after: float) -> None:
    loss = make_loss("cals_alm", 3, margin=10, rho=start).double()
    for _ in range(10):  # algorithm 2: once in ten epochs, by 1.2, up to 10
        loss.on_validation_end(logits_at_distance(20, 0), ANY_LABEL)
    assert state(loss)["rho"].tolist() == pytest.approx([start, after, start])


def test_new_rho_does_not_enter_the_same_update_of_lambda(alm: CalibrationLoss) -> None:
    for _ in range(2):
        alm.on_validation_end(logits_at_distance(20, 20), ANY_LABEL)
    assert state(alm)["lam"].tolist() == pytest.approx([1e-6, 2, 2], rel=1e-5)


def test_heuristic_multipliers_follow_the_penalty() -> None:
    loss = make_loss("cals_hr", 3, margin=10, lam=1).double()
    loss.on_validation_end(logits_at_distance(20, 20), ANY_LABEL)
    assert state(loss)["lam"].tolist() == [1, 1, 1]
    loss.on_validation_end(logits_at_distance(22, 15), ANY_LABEL)  # 10 -> 12 and 10 -> 5
    assert state(loss)["lam"].tolist() == pytest.approx([1, 1.1, 1 / 1.1])
    loss.on_validation_end(logits_at_distance(22, 15.5), ANY_LABEL)  # 12 -> 13.2, 5 -> 5
    assert state(loss)["lam"].tolist() == pytest.approx([1, 1.1, 1 / 1.1])


def two_class_logits(confidence: float, count: int) -> Tensor:
    p = torch.linspace(confidence - 1e-3, confidence, count, dtype=torch.float64)
    return torch.stack([p, 1 - p], 1).log()


@pytest.mark.parametrize(
    ("before", "gap", "after"),
    [
        (1.0, 0.5, 1.0 * 2.718281828**0.5),  # overconfident: more focal
        (1.0, -0.5, 1.0 * 2.718281828**-0.5),
        (0.25, -0.5, -0.2),  # below the smallest size: changes sign
        (-0.25, 0.5, 0.2),  # overconfident: less inverse focal
        (-1.0, -0.5, -1.0 * 2.718281828**0.5),
        (-1.9, -0.5, -2.0),  # clipped
        (15.0, 0.5, 20.0),
    ],
)
def test_exponents_follow_calibration(before: float, gap: float, after: float) -> None:
    loss = make_loss("adafocal", 2).double()
    state(loss)["gamma"].fill_(before)
    # 61 samples fill 15 bins of 4; the least confident one is in none.
    confidence, count = (0.9995, 61) if gap > 0 else (0.5010, 61)
    right = torch.arange(count) % 2 == 0 if gap > 0 else torch.ones(count, dtype=torch.bool)
    loss.on_validation_end(two_class_logits(confidence, count), (~right).long())
    assert state(loss)["gamma"].mean().item() == pytest.approx(after, rel=0.02)


def test_bins_hold_equal_shares_of_validation() -> None:
    loss = make_loss("adafocal", 2).double()
    logits = two_class_logits(0.9, 1500)
    loss.on_validation_end(logits, torch.zeros(1500, dtype=torch.int64))
    bins = torch.bucketize(logits.softmax(1).max(1).values, state(loss)["edges"])
    assert bins.bincount().tolist() == pytest.approx([100] * 15, abs=1)


def test_empty_bins_keep_their_exponent() -> None:
    loss = make_loss("adafocal", 2).double()
    logits = torch.tensor([[4.0, 0.0]]).double().repeat(20, 1)  # all edges coincide
    loss.on_validation_end(logits, torch.ones(20, dtype=torch.int64))
    assert state(loss)["gamma"].tolist() == [1] * 15


def crl_epoch(loss: CalibrationLoss, order: list[int], right: list[bool]) -> None:
    """One epoch in batches of two; ``right`` is by sample number."""
    for start in range(0, len(order), 2):
        indices = torch.tensor(order[start : start + 2])
        targets = torch.zeros(len(indices), dtype=torch.int64)
        logits = torch.tensor([[1.0, 0.0] if right[i] else [0.0, 1.0] for i in indices])
        loss(logits, targets, indices=indices)
        loss.on_step_end()
    loss.on_epoch_end()


def test_crl_tracks_samples_across_shuffling() -> None:
    loss = make_loss("crl", 2)
    loss.on_train_begin(4)
    crl_epoch(loss, [2, 0, 3, 1], [True, False, True, False])
    crl_epoch(loss, [1, 3, 0, 2], [True, False, False, False])
    assert state(loss)["times_right"].tolist() == [2, 0, 1, 0]
    assert state(loss)["epochs"].item() == 2


def test_crl_counts_training_steps_only() -> None:
    loss = make_loss("crl", 2).eval()
    crl_epoch(loss, [0, 1], [True, True])
    assert state(loss)["times_right"].tolist() == [0, 0]


def test_crl_is_cross_entropy_in_the_first_epoch() -> None:
    loss = make_loss("crl", 2)
    loss.on_train_begin(4)
    logits, targets = torch.randn(4, 2), torch.zeros(4, dtype=torch.int64)
    loss(logits, targets, indices=torch.arange(4))
    loss.on_step_end()
    value = loss(logits, targets, indices=torch.arange(4) * 0)
    torch.testing.assert_close(value, torch.nn.functional.cross_entropy(logits, targets))


def test_crl_memory_grows() -> None:
    loss = make_loss("crl", 2)
    crl_epoch(loss, [0, 1, 4, 5], [True] * 6)
    assert state(loss)["times_right"].tolist() == [1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "crl needs indices="), ({"indices": torch.tensor([0, -1])}, "negative, got -1")],
)
def test_crl_needs_indices(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_loss("crl", 2)(torch.zeros(2, 2), torch.tensor([0, 1]), **arguments)


def test_supcon_needs_features() -> None:
    with pytest.raises(ValueError, match=r"needs features=, \(N, D\)"):
        make_loss("supcon", 2)(torch.zeros(2, 2), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"shape \(2, D\), got torch.float32 of shape \(3, 4\)"):
        make_loss("supcon", 2)(torch.zeros(2, 2), torch.tensor([0, 1]), features=torch.zeros(3, 4))


def test_aucm_finds_the_saddle_point() -> None:
    loss = make_loss("aucm", 2, margin=1).double()
    logits = torch.randn(64, 2, dtype=torch.float64)
    targets = torch.arange(64) % 2
    optimizer = torch.optim.SGD(loss.parameter_groups(), lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        loss(logits, targets).backward()
        optimizer.step()
        loss.on_step_end()
    p, values = logits.softmax(1)[:, 1], dict(loss.named_parameters())
    positive, negative = p[targets == 1].mean().item(), p[targets == 0].mean().item()
    assert values["a"].item() == pytest.approx(positive, abs=1e-6)
    assert values["b"].item() == pytest.approx(negative, abs=1e-6)
    assert values["alpha"].item() == pytest.approx(1 + negative - positive, abs=1e-6)


def test_aucm_keeps_its_dual_variable_from_going_negative() -> None:
    loss = make_loss("aucm", 3)
    for parameter in loss.parameters():
        parameter.data.fill_(-1.0)
    loss.on_step_end()
    assert dict(loss.named_parameters())["alpha"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["focal", "crl", "cals_alm", "adafocal"])
def test_other_losses_have_nothing_to_optimise(name: str) -> None:
    assert make_loss(name, 3).parameter_groups() == []


def test_kde_selects_the_bandwidth_with_the_largest_validation_likelihood() -> None:
    logits = 2 * torch.randn(50, 4, dtype=torch.float64)
    probs, targets = logits.softmax(1), torch.zeros(50, dtype=torch.int64)

    def log_likelihood(bandwidth: float) -> float:
        density = torch.distributions.Dirichlet((probs / bandwidth + 1)[:, None])
        log_densities = density.log_prob(probs[None])  # type: ignore[no-untyped-call]
        log_densities.fill_diagonal_(-torch.inf)
        return float(log_densities.logsumexp(dim=0).sum())

    loss, given = (
        make_loss("kde_xe", 4, bandwidth="likelihood"),
        make_loss("kde_xe", 4, bandwidth=0.3),
    )
    assert float(state(loss)["width"]) == pytest.approx(0.02)
    for each in (loss, given):
        each.on_validation_end(logits, targets)
    best = float(state(loss)["width"])
    assert 0.001 < best < 0.5
    assert log_likelihood(best) > max(log_likelihood(best * step) for step in (0.3, 3.0))
    assert float(state(given)["width"]) == 0.3
    expected = make_loss("kde_xe", 4, bandwidth=best)
    torch.testing.assert_close(loss(logits, targets), expected(logits, targets))


def test_kde_keeps_the_bandwidth_in_range() -> None:
    loss = make_loss("kde_xe", 4, bandwidth="likelihood")
    certain = 1000 * torch.eye(4, dtype=torch.float64)
    loss.on_validation_end(certain, torch.arange(4))
    assert 0.001 <= float(state(loss)["width"]) <= 0.5
    loss.on_validation_end(certain[:1], torch.arange(1))


def test_supcon_sees_the_projected_features_and_trains_the_projection() -> None:
    torch.manual_seed(0)
    features, targets = torch.randn(8, 6), torch.arange(8) % 3
    loss, plain = make_loss("supcon", 3, projection=4), make_loss("supcon", 3)
    with pytest.raises(ValueError, match=r"call on_features\(D\)"):
        loss(torch.zeros(8, 3), targets, features=features)
    loss.on_features(6)
    assert [tuple(each.shape) for each in loss.parameters()] == [(6, 6), (6,), (4, 6), (4,)]
    first, relu, last = loss.get_submodule("head")  # type: ignore[misc]
    projected = last(relu(first(features)))
    value = loss(torch.zeros(8, 3), targets, features=features)
    torch.testing.assert_close(value, plain(torch.zeros(8, 3), targets, features=projected))
    value.backward()
    assert all(each.grad is not None and each.grad.any() for each in loss.parameters())
    assert not list(plain.parameters())
