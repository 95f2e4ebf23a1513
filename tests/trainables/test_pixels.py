"""Segmentation: losses, metrics and intervals over the pixels that are not ignored."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainables import metrics as M
from trainables.contract.config import TrainingConfig
from trainables.data import Dataset, SegmentedImages, Split
from trainables.data.core.tasks import IGNORED, EachPixel, at_places
from trainables.engine.training import Trainer
from trainables.files.rows import Rows
from trainables.losses import CalibrationLoss, available_losses, loss_class, make_loss
from trainables.models import make_model
from trainables.posthoc import cross_fitted
from trainables.trials.outcome import Extent, summarise

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


def images(count: int, size: int) -> Tensor:
    """The image of each pixel."""
    return torch.arange(count).repeat_interleave(size)


def clustered(clusters: int, size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits and labels of clusters with correlated errors."""
    draw = torch.Generator().manual_seed(seed)
    sure = 1 + torch.randn(clusters, 1, generator=draw).abs().expand(-1, size).double()
    luck = torch.rand(clusters, 1, generator=draw).double().expand(-1, size)
    logits = torch.stack([sure, torch.zeros_like(sure)], 2).flatten(0, 1)
    return logits, (luck > sure.sigmoid()).long().flatten()


def test_temperatures_are_fitted_on_other_images() -> None:
    logits, labels = clustered(40, 10)
    scaled = cross_fitted(logits, labels, clusters=images(40, 10))
    factors = (scaled[:, 0] / logits[:, 0]).view(40, 10)
    torch.testing.assert_close(factors, factors[:, :1].expand(-1, 10))
    assert len({round(each, 6) for each in factors[:, 0].tolist()}) == 2


def test_outcomes_have_intervals_by_image() -> None:
    predictions = clustered(40, 10)
    names = ("ece", "error", "auroc")
    extent = Extent(names, (*names, "own"), ("smooth_ece",), {"own": M.error_rate})
    rows = Rows(*(each.numpy() for each in predictions))
    by_image = replace(rows, groups=images(40, 10).numpy())
    found = summarise(by_image, by_image, extent=extent)
    independent = summarise(rows, rows, extent=extent)
    for name in ("error", "own"):
        width = found[f"test_{name}_high"] - found[f"test_{name}_low"]
        assert width > 2 * (independent[f"test_{name}_high"] - independent[f"test_{name}_low"])
    assert found["test_ece_calibrated_high"] > 0
    assert {"test_auroc_low", "test_smooth_ece_calibrated"} <= found.keys()
