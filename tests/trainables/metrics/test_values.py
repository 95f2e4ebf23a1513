"""Values stated by hand, and by independent libraries."""

import math
from itertools import pairwise, permutations, product
from typing import Literal

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import beta
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    jaccard_score,
    log_loss,
    roc_auc_score,
    roc_curve,
)
from torch import Tensor

from trainables import metrics as M
from trainables.metrics import _beta_kernel, kernel_density


def binary(confidence_in_first: list[float]) -> Tensor:
    first = torch.tensor(confidence_in_first, dtype=torch.float64)
    return torch.stack([first, 1 - first], dim=1)


# Five bins: (0.6, 0.8] holds 0.7 (right) and 0.8 (wrong), (0.8, 1] holds 0.9 (right), 1.0 (right).
PROBS = binary([0.7, 0.8, 0.9, 1.0])
LABELS = torch.tensor([0, 1, 0, 0])


def test_equal_width_errors_by_hand() -> None:
    expected = (2 * abs(0.75 - 0.5) + 2 * abs(0.95 - 1)) / 4
    assert M.expected_calibration_error(PROBS, LABELS, num_bins=5) == pytest.approx(expected)
    assert M.maximum_calibration_error(PROBS, LABELS, num_bins=5) == pytest.approx(0.25)


def test_reliability_bins_by_hand() -> None:
    bins = M.reliability_bins(PROBS, LABELS, num_bins=5)
    assert bins.lower.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert bins.upper.tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8, 1])
    assert bins.count.tolist() == [0, 0, 0, 2, 2]
    assert bins.confidence.tolist() == pytest.approx([math.nan] * 3 + [0.75, 0.95], nan_ok=True)
    assert bins.accuracy.tolist() == pytest.approx([math.nan] * 3 + [0.5, 1], nan_ok=True)


def test_equal_mass_error_by_hand() -> None:
    # Bins of 2, 1 and 1 samples.
    expected = (2 * abs(0.75 - 0.5) + abs(0.9 - 1) + abs(1.0 - 1)) / 4
    assert M.adaptive_calibration_error(PROBS, LABELS, num_bins=3) == pytest.approx(expected)


def test_classwise_errors_by_hand() -> None:
    # First class: 0.7, 0.8 | 0.9, 1.0 with members 1, 0 | 1, 1. Second class: 0, 0.1, 0.2 | 0.3 in
    # bins of equal width, 0, 0.1 | 0.2, 0.3 in halves; its only member has 0.2.
    first = (2 * abs(0.75 - 0.5) + 2 * abs(0.95 - 1)) / 4
    second = (abs(0.3 - 1) + 0.3) / 4
    value = M.classwise_calibration_error(PROBS, LABELS, num_bins=5)
    assert value == pytest.approx((first + second) / 2)
    second = (0.1 + abs(0.5 - 1)) / 4
    value = M.classwise_calibration_error(PROBS, LABELS, num_bins=2, binning="equal_mass")
    assert value == pytest.approx((first + second) / 2)


def test_classwise_error_counts_certainty_that_is_wrong_in_both_classes() -> None:
    probs = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert M.classwise_calibration_error(probs, torch.tensor([1, 1])) == 1


def test_classwise_error_counts_classes_without_samples() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    value = M.classwise_calibration_error(probs, torch.tensor([0]))
    assert value == pytest.approx((0.5 + 0.3 + 0.2) / 3)


def test_debiased_error_by_hand() -> None:
    # One bin: mean confidence 0.85, accuracy 1/4, whose variance is (1/4 * 3/4) / 3.
    labels = torch.tensor([0, 1, 1, 1])
    expected = math.sqrt((0.85 - 0.25) ** 2 - 0.25 * 0.75 / 3)
    assert M.debiased_calibration_error(PROBS, labels, num_bins=1) == pytest.approx(expected)
    # Two bins: squared gaps minus variances (1/4 and 0) are negative in total.
    assert M.debiased_calibration_error(PROBS, LABELS, num_bins=2) == 0


def test_proper_scores_by_hand() -> None:
    nll = -(math.log(0.7) + math.log(0.2) + math.log(0.9)) / 4
    brier = 2 * (0.3**2 + 0.8**2 + 0.1**2) / 4
    assert M.negative_log_likelihood(PROBS, LABELS) == pytest.approx(nll)
    assert M.brier_score(PROBS, LABELS) == pytest.approx(brier)
    assert M.root_brier_score(PROBS, LABELS) == pytest.approx(math.sqrt(brier))
    assert M.accuracy(PROBS, LABELS) == 0.75


def test_risk_coverage_by_hand() -> None:
    # Most confident first: correct, correct, wrong, correct.
    area = (0 + 0 + 1 / 3 + 1 / 4) / 4
    assert M.aurc(PROBS, LABELS) == pytest.approx(area)
    assert M.e_aurc(PROBS, LABELS) == pytest.approx(area - (0.25 + 0.75 * math.log(0.75)))


def test_the_aurc_of_the_log_loss_is_equation_19_with_equal_weights_of_ties() -> None:
    draw = torch.Generator().manual_seed(1)
    probs = torch.randn(50, 4, generator=draw, dtype=torch.float64).softmax(1)
    labels = torch.randint(4, (50,), generator=draw)
    ranks = probs.amax(1).argsort().argsort() + 1
    losses = -probs.gather(1, labels[:, None])[:, 0].log()
    expected = float((-(1 - ranks.double() / 51).log() * losses).mean())
    assert M.nll_aurc(probs, labels) == pytest.approx(expected, abs=1e-12)
    twice = M.nll_aurc(probs.repeat(2, 1), labels.repeat(2))
    means = [-math.log((1 - (2 * r - 1) / 101) * (1 - 2 * r / 101)) / 2 for r in ranks.tolist()]
    assert twice == pytest.approx(float((torch.tensor(means).double() * losses).mean()), abs=1e-6)


def test_mean_iou_is_the_jaccard_score_of_the_classes_that_occur() -> None:
    draw = torch.Generator().manual_seed(1)
    probs = torch.randn(90, 6, generator=draw).softmax(1)
    probs[:, 5] = 0
    probs = probs / probs.sum(1, keepdim=True)
    labels = torch.randint(5, (90,), generator=draw)
    expected = jaccard_score(labels, probs.argmax(1), average="macro")
    assert M.mean_iou(probs, labels) == pytest.approx(expected)


def test_aurc_of_ties_is_the_mean_over_their_orders() -> None:
    probs = binary([0.9, 0.6, 0.6, 0.6, 0.6, 0.55, 0.55])
    labels = torch.tensor([1, 0, 1, 0, 0, 1, 0])
    wrong = labels.tolist()
    areas = []
    for first, second in product(permutations(wrong[1:5]), permutations(wrong[5:])):
        errors = np.cumsum([wrong[0], *first, *second])
        areas.append((errors / np.arange(1, 8)).mean())
    assert np.ptp(areas) > 0.1
    assert M.aurc(probs, labels) == pytest.approx(np.mean(areas))
    excess = np.mean(areas) - (3 / 7 + 4 / 7 * math.log(4 / 7))
    assert M.e_aurc(probs, labels) == pytest.approx(excess)


@pytest.mark.parametrize(
    ("confidence", "order"),
    [("max_probability", [0, 1]), ("margin", [1, 0]), ("negative_entropy", [1, 0])],
)
def test_confidence_scores_rank_differently(
    confidence: Literal["max_probability", "margin", "negative_entropy"], order: list[int]
) -> None:
    # The first has the larger maximum; the second the larger margin and the smaller entropy.
    probs = torch.tensor([[0.52, 0.48, 0, 0, 0], [0.5, 0.125, 0.125, 0.125, 0.125]])
    if confidence == "negative_entropy":
        probs = torch.tensor([[0.52, 0.12, 0.12, 0.12, 0.12], [0.5, 0.5, 0, 0, 0]])
    labels = torch.tensor([0, 0])
    labels[order[1]] = 4  # the more confident prediction is correct
    assert M.aurc(probs, labels, confidence=confidence) == pytest.approx((0 + 1 / 2) / 2)
    assert M.failure_auroc(probs, labels, confidence=confidence) == 1


def test_ece_sweep_stops_when_accuracy_decreases() -> None:
    # Two bins: accuracies 1/3 and 2/3, monotonic; three bins: 1/2, 1/2, 1/2, monotonic; four bins
    # (sizes 2, 1, 2, 1): 1/2, 0, ... falls.
    probs = binary([0.55, 0.6, 0.65, 0.7, 0.75, 0.8])
    labels = torch.tensor([1, 0, 1, 0, 1, 0])
    expected = sum(2 * abs(c - 0.5) for c in (0.575, 0.675, 0.775)) / 6
    assert M.sweep_calibration_error(probs, labels) == pytest.approx(expected)


def test_ood_metrics_by_hand() -> None:
    values = M.ood_metrics(torch.tensor([0.9, 0.8, 0.4]), torch.tensor([0.5, 0.1]))
    assert values == pytest.approx(
        {
            "auroc": 5 / 6,
            "aupr_in": (1 + 1 + 3 / 4) / 3,
            "aupr_out": (1 + 2 / 3) / 2,
            "fpr_at_95_tpr": 1 / 2,
            "detection_error": (1 / 3 + 0) / 2,
        }
    )


def test_perfect_and_useless_ood_scores() -> None:
    low, high = torch.linspace(0, 1, 20), torch.linspace(2, 3, 20)
    perfect = {"auroc": 1, "aupr_in": 1, "aupr_out": 1, "fpr_at_95_tpr": 0, "detection_error": 0}
    assert M.ood_metrics(high, low) == pytest.approx(perfect)
    same = M.ood_metrics(torch.zeros(3), torch.zeros(1))
    useless = {"auroc": 0.5, "aupr_in": 0.75, "aupr_out": 0.25}
    assert same == pytest.approx({**useless, "fpr_at_95_tpr": 1, "detection_error": 0.5})


def test_ood_metrics_agree_with_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    inside = (torch.randn(200, generator=generator) + 1).round(decimals=1)  # with ties
    outside = torch.randn(300, generator=generator).round(decimals=1)
    truth = np.r_[np.ones(200), np.zeros(300)]
    scores = torch.cat([inside, outside]).numpy()
    values = M.ood_metrics(inside, outside)
    fpr, tpr, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert values["auroc"] == pytest.approx(roc_auc_score(truth, scores))
    assert values["aupr_in"] == pytest.approx(average_precision_score(truth, scores))
    assert values["aupr_out"] == pytest.approx(average_precision_score(1 - truth, -scores))
    assert values["fpr_at_95_tpr"] == pytest.approx(fpr[np.abs(tpr - 0.95).argmin()])
    assert values["detection_error"] == pytest.approx(((1 - tpr + fpr) / 2).min())


@pytest.mark.parametrize("with_ties", [True, False])
def test_ranking_agrees_with_scikit_learn(
    probs: Tensor, rough_probs: Tensor, labels: Tensor, with_ties: bool
) -> None:
    probs = rough_probs if with_ties else probs
    confidence, predicted = probs.max(dim=1)
    expected = roc_auc_score(labels, probs, multi_class="ovr", average="macro")
    assert M.multiclass_auroc(probs, labels) == pytest.approx(expected)
    right = predicted == labels
    assert M.failure_auroc(probs, labels) == pytest.approx(roc_auc_score(right, confidence))


def test_proper_scores_agree_with_scikit_learn(probs: Tensor, labels: Tensor) -> None:
    assert M.negative_log_likelihood(probs, labels) == pytest.approx(log_loss(labels, probs))
    expected = brier_score_loss(labels, probs, scale_by_half=False)
    assert M.brier_score(probs, labels) == pytest.approx(expected)


def test_auroc_leaves_out_absent_classes(probs: Tensor, labels: Tensor) -> None:
    labels = labels.clamp(max=3)
    expected = np.mean([roc_auc_score(labels == k, probs[:, k]) for k in range(4)])
    assert M.multiclass_auroc(probs, labels) == pytest.approx(expected)


@pytest.mark.parametrize("binning", ["equal_width", "equal_mass"])
def test_classwise_error_is_the_mean_of_masks_over_classes(
    probs: Tensor, labels: Tensor, binning: Literal["equal_width", "equal_mass"]
) -> None:
    total = 0.0
    for k in range(probs.shape[1]):
        scores, members = probs[:, k].numpy(), (labels == k).numpy()
        if binning == "equal_mass":
            parts = np.array_split(np.argsort(scores, kind="stable"), 15)
        else:
            edges = np.linspace(0, 1, 16)
            parts = [
                np.flatnonzero((scores > low) & (scores <= high)) for low, high in pairwise(edges)
            ]
        total += sum(abs((scores[part] - members[part]).sum()) for part in parts) / len(scores)
    value = M.classwise_calibration_error(probs, labels, binning=binning)
    assert value == pytest.approx(total / probs.shape[1])


def test_class_blocks_do_not_change_values(
    probs: Tensor, labels: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["classwise_ece", "classwise_adaptive_ece", "auroc"]
    whole = M.evaluate(probs.log(), labels, names)
    monkeypatch.setattr("trainables.metrics._ranked._BLOCK_ELEMENTS", 2 * len(probs))
    assert M.evaluate(probs.log(), labels, names) == pytest.approx(whole)


@pytest.mark.parametrize("temperature", [0.3, 0.6, 1.0])  # nothing within 1/2000 of the ends
def test_smooth_error_agrees_with_relplot(
    logits: Tensor, labels: Tensor, temperature: float
) -> None:
    relplot = pytest.importorskip("relplot", reason="relplot is what smECE is compared with")
    probs = torch.softmax(logits * temperature, dim=1)
    confidence, predicted = probs.max(dim=1)
    expected = relplot.smECE(confidence.numpy(), (predicted == labels).double().numpy())
    assert M.smooth_calibration_error(probs, labels) == pytest.approx(expected, rel=1e-9)


def smooth_error_of_definition(confidence: np.ndarray, right: np.ndarray) -> float:
    """The width that equals the error computed with it, by the integral in the paper.

    The Gaussian reflected without end at 0 and 1 is 1 + 2 sum_k exp(-(sigma pi k)^2 / 2)
    cos(pi k t) cos(pi k f).
    """
    residual = confidence - right
    waves = np.pi * np.arange(1, 1000)
    means = np.array([np.mean(residual * np.cos(w * confidence)) for w in waves])
    points = np.linspace(0, 1, 10_001)
    cosines = np.cos(np.outer(points, waves))

    def excess(sigma: float) -> float:
        damped = 2 * np.exp(-((sigma * waves) ** 2) / 2) * means
        return float(np.trapezoid(np.abs(residual.mean() + cosines @ damped), points) - sigma)

    return float(brentq(excess, 5e-3, 1, xtol=1e-6))


@pytest.mark.parametrize(
    ("share_at_one", "loss_of_accuracy", "tolerance"),
    [(1.0, 0.05, 1e-3), (0.8, 0.05, 0.04), (0.5, 0.1, 0.02), (0.2, 0.2, 0.01), (0.0, 0.1, 0.002)],
)
def test_smooth_error_of_saturated_predictions_is_the_integral_of_its_definition(
    share_at_one: float, loss_of_accuracy: float, tolerance: float
) -> None:
    random = np.random.default_rng(0)
    confidence = np.where(random.random(3000) < share_at_one, 1, random.uniform(0.5, 1, 3000))
    right = random.random(3000) < confidence - loss_of_accuracy
    labels = torch.from_numpy(np.where(right, 0, 1))
    value = M.smooth_calibration_error(binary(confidence.tolist()), labels)
    assert value == pytest.approx(smooth_error_of_definition(confidence, right), rel=tolerance)


@pytest.mark.parametrize("cap", [0.9999, 0.999, 0.998])
def test_smooth_error_is_robust_to_capped_confidence(cap: float) -> None:
    random = np.random.default_rng(1)
    confidence = np.where(random.random(3000) < 0.8, 1, random.uniform(0.5, 1, 3000))
    labels = torch.from_numpy((random.random(3000) > confidence**1.5).astype(int))
    values = [
        M.smooth_calibration_error(binary(c.tolist()), labels)
        for c in (confidence, confidence.clip(max=cap))
    ]
    assert abs(values[0] - values[1]) <= (1 - cap) + 1e-4


def kernel_error_of_definition(probs: Tensor, labels: Tensor, bandwidth: float) -> float:
    """The estimator with torch's Dirichlet density and a loop over samples."""
    total = 0.0
    for j in range(len(probs)):
        others = torch.arange(len(probs)) != j
        dirichlet = torch.distributions.Dirichlet(probs[others] / bandwidth + 1)
        density = dirichlet.log_prob(probs[j])  # type: ignore[no-untyped-call]
        weights = torch.softmax(density, dim=0)
        one_hot = torch.nn.functional.one_hot(labels[others], probs.shape[1]).double()
        total += float((weights @ one_hot - probs[j]).abs().sum())
    return total / len(probs)


@pytest.mark.parametrize("bandwidth", [0.001, 0.05, 1.0])
def test_canonical_kernel_error_is_its_definition(
    probs: Tensor, labels: Tensor, bandwidth: float
) -> None:
    probs, labels = probs[:60], labels[:60]
    expected = kernel_error_of_definition(probs, labels, bandwidth)
    assert M.kde_calibration_error(probs, labels, bandwidth) == pytest.approx(expected, rel=1e-9)


def test_top_label_kernel_error_is_its_definition(probs: Tensor, labels: Tensor) -> None:
    probs, labels = probs[:60], labels[:60]
    confidence, predicted = probs.max(dim=1)
    pair = torch.stack([1 - confidence, confidence], dim=1)
    expected = kernel_error_of_definition(pair, (predicted == labels).long(), 0.05) / 2
    value = M.kde_calibration_error(probs, labels, 0.05, kind="top_label")
    assert value == pytest.approx(expected, rel=1e-9)


def test_default_bandwidth_has_the_largest_leave_one_out_likelihood(
    probs: Tensor, labels: Tensor
) -> None:
    probs, labels = probs[:80], labels[:80]

    def log_likelihood(bandwidth: float) -> float:
        density = torch.distributions.Dirichlet((probs / bandwidth + 1)[:, None])
        log_densities = density.log_prob(probs[None])  # type: ignore[no-untyped-call]
        log_densities.fill_diagonal_(-math.inf)
        return float(log_densities.logsumexp(dim=0).sum())

    candidates = [10**e for e in np.linspace(-5, -1, 15)] + list(np.linspace(0.2, 1, 5))
    best = max(candidates, key=log_likelihood)
    assert candidates[0] < best < candidates[-1]
    expected = M.kde_calibration_error(probs, labels, float(best))
    assert M.kde_calibration_error(probs, labels) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["spread", "ties", "saturated"])
def test_the_top_labels_bandwidth_is_that_of_two_classes(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(300, generator=generator, dtype=torch.float64)
    if kind == "ties":
        confidence = (confidence * 20).round() / 20
    if kind == "saturated":
        confidence[:200] = 1.0
    pair = torch.stack([confidence, 1 - confidence], dim=1)
    expected = kernel_density.most_likely_bandwidth(pair)
    assert _beta_kernel.most_likely_bandwidth(confidence) == expected


@pytest.mark.parametrize("power", [0.02, 0.3, 1.0])
def test_half_of_the_samples_preselect_the_bandwidths(power: float) -> None:
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(900, generator=generator, dtype=torch.float64) ** power
    pair = torch.stack([confidence, 1 - confidence], dim=1)
    expected = kernel_density.most_likely_bandwidth(pair)
    assert _beta_kernel.most_likely_bandwidth(confidence) == expected


def test_cells_of_many_samples_hardly_change_the_top_labels_kernel_error() -> None:
    generator = torch.Generator().manual_seed(0)
    confidence = torch.rand(6000, generator=generator, dtype=torch.float64) ** 0.5
    correct = torch.rand(6000, generator=generator, dtype=torch.float64) < confidence**2
    pair = torch.stack([1 - confidence, confidence], dim=1)
    for bandwidth in (0.001, 0.02):
        expected = float(kernel_density.kernel_error(pair, correct.long(), bandwidth)) / 2
        found = float(_beta_kernel.top_label_kernel_error(confidence, correct, bandwidth))
        assert found == pytest.approx(expected, rel=0.02)
    shuffled = torch.randperm(6000, generator=generator)
    again = _beta_kernel.top_label_kernel_error(confidence[shuffled], correct[shuffled], 0.02)
    assert float(again) == pytest.approx(found, rel=1e-12)


def test_samples_of_one_confidence_share_their_outcomes() -> None:
    confidence = torch.full((4000,), 0.75, dtype=torch.float64)
    correct = torch.arange(4000) < 2000
    count, mean, positives = _beta_kernel.equal_mass_cells(confidence, correct, 1024)
    assert count.sum() == 4000
    assert mean.unique().tolist() == [0.75]
    torch.testing.assert_close(positives, count / 2)
    value = _beta_kernel.top_label_kernel_error(confidence, correct)
    assert float(value) == pytest.approx(0.25, abs=1e-3)


def test_kernel_error_of_many_samples_averages_over_evenly_spread_ones(
    probs: Tensor, labels: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 100 copies of five samples: copies have equal values, so a subset has the same mean.
    probs, labels = probs[:5].repeat_interleave(100, dim=0), labels[:5].repeat_interleave(100)
    whole = M.kde_calibration_error(probs, labels, bandwidth=0.01)
    monkeypatch.setattr(kernel_density, "MAX_EVALUATED", 50)
    monkeypatch.setattr(kernel_density, "_CENTRES_PER_BLOCK", 64)
    assert M.kde_calibration_error(probs, labels, bandwidth=0.01) == pytest.approx(whole)


def test_ties_share_a_bin() -> None:
    """All confidences .9, accuracy .8: the variance is that of all samples, not of 15 parts."""
    errors = []
    for seed in range(200):
        right = torch.rand(150, generator=torch.Generator().manual_seed(seed)) < 0.8
        probs = binary([0.9] * 150)
        errors.append(M.debiased_calibration_error(probs, (~right).long()) ** 2)
        gap = 0.9 - float(right.double().mean())
        assert M.adaptive_calibration_error(probs, (~right).long()) == pytest.approx(abs(gap))
        expected = gap**2 - (0.9 - gap) * (0.1 + gap) / 149
        assert errors[-1] == pytest.approx(max(0, expected), abs=1e-12)
    assert sum(errors) / 200 == pytest.approx(0.01, abs=0.001)


def test_kernel_error_with_ties_is_that_of_equation_9() -> None:
    """Leave one out over all pairs, without cells."""
    random = np.random.default_rng(0)
    confidence = np.round(random.uniform(0.5, 1, 300), 1).clip(0.5, 0.9)
    right = (random.random(300) < confidence - 0.1).astype(float)
    bandwidth = 0.05
    kernel = beta.pdf(
        confidence[None],
        confidence[:, None] / bandwidth + 1,
        (1 - confidence[:, None]) / bandwidth + 1,
    )
    np.fill_diagonal(kernel, 0)
    expected = np.abs(right @ kernel / kernel.sum(axis=0) - confidence).mean()
    found = _beta_kernel.top_label_kernel_error(
        torch.from_numpy(confidence), torch.from_numpy(right == 1), bandwidth
    )
    assert float(found) == pytest.approx(expected, rel=1e-9)
