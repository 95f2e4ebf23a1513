"""The kinds of sample."""

from typing import Any

import numpy as np
import pytest
import torch

from trainables.data.kinds.arrays import Arrays, Images, channel_statistics
from trainables.data.kinds.augmentation import draw_moves, move, normalise


def test_images_are_augmented_then_normalised() -> None:
    inputs = np.random.default_rng(0).integers(0, 256, (6, 2, 8, 8), dtype=np.uint8)
    kind = Images.measured(inputs, augmentation="crop")
    batch = torch.from_numpy(inputs)
    prepared = kind.prepare(batch)
    assert prepared.shape[1:] == kind.shape
    torch.testing.assert_close(prepared.mean((0, 2, 3)), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(
        prepared.std((0, 2, 3), correction=0), torch.ones(2), atol=1e-6, rtol=0
    )
    seeded = [torch.Generator().manual_seed(3) for _ in range(2)]
    moved = move(batch, draw_moves(batch, "crop_flip", seeded[0]))
    expected = normalise(moved, kind.mean, kind.std)
    torch.testing.assert_close(kind.prepare(batch, "crop_flip", seeded[1]), expected)


@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 4, 6)])
def test_arrays_are_standardised_by_channel(shape: tuple[int, ...]) -> None:
    inputs = np.random.default_rng(0).normal(5, 3, (40, *shape)).astype(np.float32)
    kind = Arrays.measured(inputs)
    kind.check(inputs)
    prepared = kind.prepare(torch.from_numpy(inputs))
    dims = [dim for dim in range(inputs.ndim) if dim != 1]
    torch.testing.assert_close(prepared.mean(dims), torch.zeros(shape[0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        prepared.std(dims, correction=0), torch.ones(shape[0]), atol=1e-5, rtol=0
    )


def test_a_constant_channel_becomes_zero() -> None:
    inputs = np.full((4, 2), 7, np.float32)
    assert Arrays.measured(inputs).prepare(torch.from_numpy(inputs)).abs().max() == 0


def test_unscaled_arrays_stay_as_they_are() -> None:
    batch = torch.randn(3, 5, 2)
    torch.testing.assert_close(Arrays.unscaled((5, 2)).prepare(batch), batch, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ((0.1,), (1.0, 1.0, 1.0), "one number for each of 3 channels, not 1 and 3"),
        ((0.1,) * 3, (0.1, 0.0, 0.1), "std must be above 0"),
        ((0.1,) * 3, (0.1, float("nan"), 0.1), "std must be above 0"),
    ],
)
@pytest.mark.parametrize("kind", [Images, Arrays])
def test_statistics_are_checked(kind: Any, mean: Any, std: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind((3, 4, 5), mean, std)


@pytest.mark.parametrize(
    ("kind", "inputs", "error", "message"),
    [
        (Arrays.unscaled((3,)), np.zeros((2, 3)), TypeError, "float32, not float64"),
        (Arrays.unscaled((3,)), np.zeros((2, 4), np.float32), ValueError, "arrays of 3 numbers"),
    ],
)
def test_other_arrays_are_refused(
    kind: Any, inputs: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        kind.check(inputs)


@pytest.mark.parametrize("count", [3, 2500])  # one block, and several
def test_channel_statistics(count: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (count, 3, 4, 4), dtype=np.uint8)
    mean, std = channel_statistics(images)
    np.testing.assert_allclose(mean, (images / 255).mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(std, (images / 255).std(axis=(0, 2, 3)), rtol=1e-9)


def test_a_constant_channel_has_a_deviation_to_divide_by() -> None:
    assert channel_statistics(np.full((4, 1, 2, 2), 255, np.uint8)) == ((1.0,), (1 / 255,))
