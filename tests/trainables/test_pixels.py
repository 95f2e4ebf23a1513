"""Segmentation: losses, metrics and intervals over the pixels that are not ignored."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.clustered import PIXELS, draw
from trainables import metrics as M
from trainables.contract.config import TrainingConfig
from trainables.data import Dataset, SegmentedImages, Split
from trainables.data.core.tasks import IGNORED, EachPixel, at_places
from trainables.engine.training import Trainer
from trainables.losses import CalibrationLoss, available_losses, loss_class, make_loss
from trainables.models import make_model
from trainables.posthoc import cross_fitted
from trainables.trials.outcome import summarise

TASK = EachPixel(5)
CPU = torch.device("cpu")


def test_the_losses_that_are_for_pixels() -> None:
    able = {name for name in available_losses() if TASK.accepts(loss_class(name))}
    assert {"cross_entropy", "focal", "focal_calibration", "mbls", "cals_alm", "adafocal"} <= able
    assert not {"mmce", "kde_xe", "r_aurc", "crl", "supcon", "mixup", "aucm"} & able

    class OfItsOwnBatches(CalibrationLoss):
        each_pixel = True

        def prepare_batch(self, inputs: Any, targets: Any, **_: Any) -> Any:
            return inputs, targets

    assert not TASK.accepts(OfItsOwnBatches)  # it would transform images without their masks


@pytest.mark.parametrize("name", [n for n in available_losses() if TASK.accepts(loss_class(n))])
def test_ignored_pixels_change_nothing(name: str) -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 4, 5, generator=draw, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(3, (2, 4, 5), generator=draw)
    ignored = torch.rand(2, 4, 5, generator=draw) < 0.4
    masks = torch.where(ignored, IGNORED, labels).byte()
    loss = make_loss(name, 3).double()
    value = loss(*TASK.decisions_of(logits, masks))
    (gradient,) = torch.autograd.grad(value, logits)
    rows, truth = logits.movedim(1, 3)[~ignored], labels[~ignored]
    torch.testing.assert_close(value, make_loss(name, 3).double()(rows, truth))
    assert (gradient.movedim(1, 3)[ignored] == 0).all()
    assert (gradient.movedim(1, 3)[~ignored] != 0).any(1).all()


def test_pixels_know_their_images() -> None:
    masks = torch.tensor([[[0, IGNORED], [1, 1]], [[IGNORED, IGNORED], [IGNORED, 2]]]).byte()
    numbers = torch.tensor([7, 9])
    assert TASK.samples_of(numbers, masks).tolist() == [7, 7, 7, 9]
    logits = torch.arange(24.0).reshape(2, 3, 2, 2)
    rows, truth = TASK.decisions_of(logits, masks)
    assert truth.tolist() == [0, 1, 1, 2]
    assert rows.tolist() == [[0, 4, 8], [2, 6, 10], [3, 7, 11], [15, 19, 23]]


def test_a_batch_with_only_ignored_pixels_has_no_gradient() -> None:
    logits = torch.randn(2, 3, 2, 2, requires_grad=True)
    masks = torch.full((2, 2, 2), IGNORED, dtype=torch.uint8)
    rows, truth = TASK.decisions_of(logits, masks)
    (gradient,) = torch.autograd.grad(make_loss("focal", 3)(rows, truth), logits)
    assert (gradient == 0).all()
    assert len(TASK.samples_of(torch.tensor([3, 4]), masks)) == len(rows)


@given(st.integers(0, 2**32 - 1))
def test_pixels_are_drawn_of_those_that_count_the_same_each_time(seed: int) -> None:
    random = np.random.default_rng(seed)
    masks = random.choice([0, 1, IGNORED], (3, 4, 4), p=[0.2, 0.2, 0.6]).astype(np.uint8)
    masks[:, 0, 0] = 1
    places = TASK.drawn(masks)
    assert places is not None
    assert places.shape == (3, 5)
    flat = masks.reshape(3, -1)
    assert (np.take_along_axis(flat, places, 1) != IGNORED).all()
    for row, counted in enumerate((flat != IGNORED).sum(1).tolist()):
        assert len(set(places[row].tolist())) == 5 or counted < 5
    assert np.array_equal(TASK.drawn(masks), places)
    outputs = torch.from_numpy(flat.reshape(3, 1, 4, 4).copy())
    found = at_places(outputs, torch.from_numpy(places))
    np.testing.assert_array_equal(found[:, 0].numpy(), np.take_along_axis(flat, places, 1))


def scenes(count: int, size: int = 8) -> Dataset:
    """Bright pixels have class 1; the last column is ignored."""
    random = np.random.default_rng(0)
    masks = (random.random((count, size, size)) < 0.3).astype(np.uint8)
    images = (random.integers(0, 60, (count, 1, size, size)) + 120 * masks[:, None]).astype(
        np.uint8
    )
    masks[:, :, -1] = IGNORED
    split = Split(images, masks)
    samples = SegmentedImages.measured(images)
    return Dataset("bright", split, split, split, ("dark", "bright"), samples, task=TASK)


def trainer(dataset: Dataset, loss: str = "focal", **recipe: Any) -> Trainer:
    torch.manual_seed(0)
    model = make_model(
        "small_fcn", input_shape=dataset.input_shape, samples=dataset.samples, num_classes=2
    )
    config = TrainingConfig(
        **{"epochs": 3, "batch_size": 4, "optimizer": "adam", "lr": 0.02, **recipe}
    )
    return Trainer(model, make_loss(loss, 2), dataset, config, seed=0, device=CPU)


def test_a_network_learns_pixels_and_predicts_those_that_are_drawn() -> None:
    dataset = scenes(24)
    found = trainer(dataset, augmentation="crop_flip")
    first = found.train_epoch()["train_loss"]
    for _ in range(2):
        last = found.train_epoch()["train_loss"]
    assert last < 0.7 * first
    logits, labels = found.predict(dataset.test)
    assert (logits.shape, labels.shape) == ((24, 2, 5), (24, 5))
    assert labels.dtype == torch.int64
    rows, truth = TASK.decisions_of(logits, labels)
    assert len(truth) == 24 * 5
    assert M.error_rate(rows.softmax(1), truth) < 0.1
    assert torch.equal(TASK.as_outputs(rows), logits)


def test_ignored_pixels_do_not_affect_class_weights() -> None:
    from trainables.engine.class_weights import class_weights

    masks = np.array([[[0, 0], [0, 1]], [[IGNORED, IGNORED], [1, 0]]], np.uint8)
    assert class_weights("balanced", masks, 2).tolist() == pytest.approx([6 / 8, 6 / 4])


def clustered(clusters: int, size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits and labels of clusters with correlated errors."""
    draw = torch.Generator().manual_seed(seed)
    sure = 1 + torch.randn(clusters, 1, generator=draw).abs().expand(-1, size).double()
    luck = torch.rand(clusters, 1, generator=draw).double().expand(-1, size)
    logits = torch.stack([sure, torch.zeros_like(sure)], 2).flatten(0, 1)
    return logits, (luck > sure.sigmoid()).long().flatten()


@pytest.mark.parametrize("name", M.CLUSTERED_METRICS)
def test_identical_pixels_have_the_interval_of_one(name: str) -> None:
    """Ten copies of a sample have as much information as the sample."""
    logits, labels = clustered(450, 10)
    probs = logits.softmax(1)
    found = M.interval(name, probs, labels, cluster_size=10)
    alone = M.interval(name, probs[::10], labels[::10])
    as_if = M.interval(name, probs, labels)
    assert found[0] == pytest.approx(alone[0])
    assert found[2] - found[1] == pytest.approx(alone[2] - alone[1], rel=0.25)
    assert found[2] - found[1] > 2 * (as_if[2] - as_if[1])
    own = M.bootstrap(M.METRICS[name].function, probs, labels, 200, cluster_size=10)
    one = M.bootstrap(M.METRICS[name].function, probs[::10], labels[::10], 200)
    assert own == pytest.approx(one)


@pytest.mark.parametrize("name", ["ece", "nll"])
def test_intervals_by_image_cover(name: str) -> None:
    """A short form of ``benchmarks.clustered``; see ``docs/intervals.md``."""
    random = np.random.default_rng(0)
    probs, labels = draw(1.5, 5000, random)
    truth = M.METRICS[name].function(probs, labels)
    covers = {PIXELS: 0, 1: 0}
    for _ in range(40):
        probs, labels = draw(1.5, 100, random)
        for size in covers:
            _, low, high = M.interval(name, probs, labels, cluster_size=size)
            covers[size] += low <= truth <= high
    assert covers[PIXELS] >= 35
    assert covers[1] <= 30


@pytest.mark.parametrize("name", M.COMPARABLE)
def test_identical_pixels_have_the_difference_of_one(name: str) -> None:
    logits, labels = clustered(450, 10)
    ours, theirs = (0.7 * logits).softmax(1), logits.softmax(1)
    alone = M.difference(name, [ours[::10]], [theirs[::10]], labels[::10])
    found = M.difference(name, [ours], [theirs], labels, cluster_size=10)
    assert found.value == pytest.approx(alone.value)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.004)


def test_what_has_no_interval_by_image_has_none() -> None:
    logits, labels = clustered(40, 10)
    probs = logits.softmax(1)
    for name in set(M.METRIC_NAMES) - set(M.CLUSTERED_METRICS):
        assert np.isnan(M.interval(name, probs, labels, cluster_size=10)[1:]).all()
    assert np.isnan(M.interval("nll", probs[:190], labels[:190], cluster_size=10)[1:]).all()
    with pytest.raises(ValueError, match="cluster_size=7: 400 rows are no multiple of it"):
        M.interval("nll", probs, labels, cluster_size=7)


def test_correlated_pixels_increase_the_calibrated_reference() -> None:
    logits, labels = clustered(450, 10)
    probs = logits.softmax(1)
    mean, low, high = M.calibrated_reference("ece", probs, labels=labels, cluster_size=10)
    alone = M.calibrated_reference("ece", probs[::10])
    assert low < mean < high
    assert (mean, high) == pytest.approx((alone[0], alone[2]), rel=0.2)
    assert mean > 2 * M.calibrated_reference("ece", probs)[0]
    with pytest.raises(ValueError, match="labels are needed"):
        M.calibrated_reference("ece", probs, cluster_size=10)


def test_temperatures_are_fitted_on_other_images() -> None:
    logits, labels = clustered(40, 10)
    scaled = cross_fitted(logits, labels, cluster_size=10)
    factors = (scaled[:, 0] / logits[:, 0]).view(40, 10)
    torch.testing.assert_close(factors, factors[:, :1].expand(-1, 10))
    assert len({round(each, 6) for each in factors[:, 0].tolist()}) == 2


def test_outcomes_have_intervals_by_image() -> None:
    predictions = clustered(40, 10)
    arguments: dict[str, Any] = {"names": ["ece", "error", "auroc"], "own": {"own": M.error_rate}}
    found = summarise(
        predictions,
        predictions,
        intervals=["ece", "error", "auroc"],
        references=["smooth_ece"],
        cluster_size=10,
        **arguments,
    )
    independent = summarise(predictions, predictions, intervals=["error"], **arguments)
    for name in ("error", "own"):
        width = found[f"test_{name}_high"] - found[f"test_{name}_low"]
        assert width > 2 * (independent[f"test_{name}_high"] - independent[f"test_{name}_low"])
    assert found["test_ece_calibrated_high"] > 0
    assert not {"test_auroc_low", "test_smooth_ece_calibrated"} & found.keys()
