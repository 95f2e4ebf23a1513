"""Intervals where rows come in clusters: customers, patients, the pixels of an image."""

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.clustered import Law, draw
from trainables import metrics as M
from trainables.metrics.inference.clusters import Clusters

KNOWN = sorted(set(M.METRIC_NAMES) - {"mce"})


def alike(clusters: int, seed: int = 0, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Probabilities of the classes and labels, one row of each cluster."""
    draw = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(clusters, classes, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=draw)[:, 0]
    return (1.3 * logits).softmax(1), labels


def ids(count: int, size: int) -> Tensor:
    return torch.arange(count).repeat_interleave(size)


@pytest.mark.parametrize("name", KNOWN)
def test_identical_rows_have_the_interval_of_one(name: str) -> None:
    """Ten copies of a sample have as much information as the sample."""
    one, of_one = alike(450)
    probs, labels = (each.repeat_interleave(10, dim=0) for each in (one, of_one))
    found = M.interval(name, probs, labels, clusters=ids(450, 10))
    alone = M.interval(name, one, of_one)
    as_if = M.interval(name, probs, labels)
    if name not in ("debiased_ece", "kde_ece"):  # their values depend on the number of rows
        assert found[0] == pytest.approx(alone[0], rel=0.05)
    assert found[2] - found[1] == pytest.approx(alone[2] - alone[1], rel=0.25 + (name == "kde_ece"))
    assert found[2] - found[1] > 1.7 * (as_if[2] - as_if[1])


def test_the_bootstrap_draws_whole_clusters() -> None:
    one, of_one = alike(200)
    probs, labels = (each.repeat_interleave(5, dim=0) for each in (one, of_one))
    found = M.bootstrap(M.error_rate, probs, labels, 200, clusters=ids(200, 5))
    assert found == pytest.approx(M.bootstrap(M.error_rate, one, of_one, 200))


@pytest.mark.parametrize("name", KNOWN)
def test_the_order_of_rows_and_the_numbers_of_clusters_are_of_no_account(name: str) -> None:
    probs, labels, clusters = draw(Law("geometric"), 60, np.random.default_rng(3))
    mixed = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    expected = M.interval(name, probs, labels, clusters=clusters)
    found = M.interval(name, probs[mixed], labels[mixed], clusters=7 * clusters[mixed] - 5)
    assert found == pytest.approx(expected, rel=1e-6)
    assert expected[1] < expected[2]


@pytest.mark.parametrize("binning", ["equal_width", "equal_mass"])
def test_the_order_of_two_classes_is_of_no_account(binning: str) -> None:
    probs, labels, clusters = draw(Law("geometric"), 41, np.random.default_rng(0))
    name = "classwise_ece" if binning == "equal_width" else "classwise_adaptive_ece"
    for each in (None, clusters):
        expected = M.interval(name, probs, labels, clusters=each)
        assert M.interval(name, probs.flip(1), 1 - labels, clusters=each) == pytest.approx(expected)


def test_pseudo_values_are_the_jackknife() -> None:
    random = np.random.default_rng(0)
    of_row = np.repeat(np.arange(12), random.integers(1, 9, 12))
    values = random.exponential(size=len(of_row))
    found = Clusters(of_row).pseudo_values(values)
    left_out = np.array([values[of_row != each].mean() for each in range(12)])
    expected = 11 / 12 * ((left_out - left_out.mean()) ** 2).sum()
    assert found.mean() == pytest.approx(values.mean())
    assert found.var(ddof=1) / 12 == pytest.approx(expected)


def test_degrees_of_freedom_are_those_of_the_sizes() -> None:
    equal = Clusters(np.repeat(np.arange(30), 4))
    random = np.random.default_rng(0)
    assert equal.freedom(random.standard_normal(120)) == pytest.approx(29)
    one_large = Clusters(np.repeat(np.arange(30), [400, *[4] * 29]))
    shared = random.standard_normal(30)[one_large.of_row]
    assert one_large.freedom(shared) < 2  # the largest decides
    assert one_large.freedom(random.standard_normal(516)) < 10


@pytest.mark.parametrize("name", M.COMPARABLE)
def test_identical_rows_have_the_difference_of_one(name: str) -> None:
    one, of_one = alike(450, classes=2 if M.METRICS[name].two_classes else 3)
    other = (0.8 * one.log()).softmax(1)
    alone = M.difference(name, [one], [other], of_one)
    ours, theirs, labels = (each.repeat_interleave(4, dim=0) for each in (one, other, of_one))
    found = M.difference(name, [ours], [theirs], labels, clusters=ids(450, 4))
    assert found.clusters == 450
    assert found.value == pytest.approx(alone.value)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.005)


def test_decisions_of_a_cluster_stay_together() -> None:
    """Two labels of each sample, and five samples that are copies."""
    one, of_one = alike(150)
    other = (0.8 * one.log()).softmax(1)
    alone = M.difference("nll", [one], [other], of_one, decisions=2)
    pairs = torch.arange(150).reshape(-1, 2).repeat_interleave(5, dim=0).flatten()
    clusters = pairs // 2
    found = M.difference(
        "nll", [one[pairs]], [other[pairs]], of_one[pairs], decisions=2, clusters=clusters
    )
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.004)


def test_few_clusters_have_no_interval_and_no_verdict() -> None:
    one, labels = alike(90)
    for name in KNOWN:
        assert np.isnan(M.interval(name, one, labels, clusters=ids(9, 10))[1:]).all()
    worse = one.flip(1)
    for name in {*M.COMPARABLE} - {"event_ece"}:
        found = M.difference(name, [one], [worse], labels, clusters=ids(9, 10))
        assert (found.low, found.high, found.verdict) == (-np.inf, np.inf, "not supported")
        assert M.difference(name, [one], [one], labels, clusters=ids(10, 9)).high < np.inf


@pytest.mark.parametrize(
    ("clusters", "error", "message"),
    [
        (torch.zeros(4), TypeError, "clusters must be a tensor of integers, got torch.float32"),
        (torch.zeros(4, 1).long(), ValueError, r"clusters must have shape \(90,\), got \(4, 1\)"),
    ],
)
def test_other_clusters_are_refused(clusters: Tensor, error: type[Exception], message: str) -> None:
    one, labels = alike(90)
    with pytest.raises(error, match=message):
        M.interval("ece", one, labels, clusters=clusters)


def test_clusters_of_single_rows_are_independent_rows() -> None:
    one, labels = alike(60)
    assert M.interval("ece", one, labels, clusters=ids(60, 1)) == M.interval("ece", one, labels)


def test_correlated_rows_increase_the_calibrated_reference() -> None:
    one, of_one = alike(450)
    probs, labels = (each.repeat_interleave(10, dim=0) for each in (one, of_one))
    for name in ("ece", "adaptive_ece", "smooth_ece"):
        mean, low, high = M.calibrated_reference(name, probs, labels=labels, clusters=ids(450, 10))
        alone = M.calibrated_reference(name, one)
        assert low < mean < high
        assert (mean, high) == pytest.approx((alone[0], alone[2]), rel=0.3)
        assert mean > 1.8 * M.calibrated_reference(name, probs)[0]
    with pytest.raises(ValueError, match="labels are needed"):
        M.calibrated_reference("ece", probs, clusters=ids(450, 10))


def test_intervals_by_group_cover() -> None:
    """A short form of ``benchmarks.clustered``; see ``docs/intervals.md``."""
    random, law = np.random.default_rng(0), Law("geometric", factor=1.5)
    probs, labels, _ = draw(law, 20_000, random)
    truth, covers = M.negative_log_likelihood(probs, labels), {"groups": 0, "rows": 0}
    for _ in range(100):
        probs, labels, clusters = draw(law, 60, random)
        for unit, ids_of in (("groups", clusters), ("rows", None)):
            _, low, high = M.interval("nll", probs, labels, clusters=ids_of)
            covers[unit] += low <= truth <= high
    assert covers["groups"] >= 90
    assert covers["rows"] <= 85
