from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainables.data.kinds.augmentation import draw_moves, move, normalise


def images(count: int = 16, channels: int = 3, height: int = 16, width: int = 16) -> Tensor:
    # Never zero, to distinguish pixels from padding.
    generator = torch.Generator().manual_seed(0)
    shape = (count, channels, height, width)
    return torch.randint(1, 256, shape, generator=generator, dtype=torch.uint8)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def moved(
    batch: Tensor,
    kind: str,
    generator: torch.Generator | None = None,
    start: int = 0,
    total: Any = None,
) -> Tensor:
    return move(batch, draw_moves(batch, kind, generator, start, total))


def crops(image: Tensor, pad: int) -> list[Tensor]:
    """All crops of one padded image, by slicing."""
    _, height, width = image.shape
    padded = torch.nn.functional.pad(image, (pad,) * 4)
    return [
        padded[:, top : top + height, left : left + width]
        for top in range(2 * pad + 1)
        for left in range(2 * pad + 1)
    ]


def test_none_returns_the_images_themselves() -> None:
    batch = images()
    assert moved(batch, "none") is batch


@pytest.mark.parametrize("kind", ["crop", "crop_flip"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_shape_dtype_and_layout_stay(kind: str, dtype: torch.dtype) -> None:
    batch = images(5, 2, 16, 24).to(dtype)
    augmented = moved(batch, kind, seeded(0))
    assert augmented.shape == batch.shape
    assert augmented.dtype == dtype
    assert augmented.is_contiguous(memory_format=torch.channels_last)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), height=st.integers(8, 24), width=st.integers(8, 24))
def test_each_image_becomes_one_of_its_crops(seed: int, height: int, width: int) -> None:
    batch = images(4, 2, height, width)
    for image, result in zip(batch, moved(batch, "crop", seeded(seed)), strict=True):
        assert any(torch.equal(result, crop) for crop in crops(image, height // 8))


def test_flipped_images_are_mirrored_crops_and_about_half_of_all() -> None:
    batch = images(400, 1, 8, 8)
    results = moved(batch, "crop_flip", seeded(0))
    mirrored = 0
    for image, result in zip(batch, results, strict=True):
        upright = any(torch.equal(result, crop) for crop in crops(image, 1))
        flipped = any(torch.equal(result.flip(2), crop) for crop in crops(image, 1))
        assert upright != flipped
        mirrored += flipped
    assert 150 < mirrored < 250  # five standard deviations


def test_samples_and_axes_are_cropped_independently() -> None:
    position = torch.arange(1, 33, dtype=torch.float32)
    batch = (position[:, None] * 100 + position).expand(500, 1, 32, 32).contiguous()
    middle = moved(batch, "crop", seeded(0))[:, 0, 16, 16]
    seen = {(int(value) // 100, int(value) % 100) for value in middle}
    assert len(seen) == 81  # nine offsets of rows times nine of columns


def test_equal_generators_give_equal_images() -> None:
    batch = images()
    first, again = (moved(batch, "crop_flip", seeded(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, moved(batch, "crop_flip", seeded(2)))


@pytest.mark.parametrize("kind", ["crop", "crop_flip"])
def test_parts_of_a_batch_are_augmented_as_the_whole(kind: str) -> None:
    batch = images(11)
    whole = moved(batch, kind, seeded(1))
    parts = [
        moved(batch[start:stop], kind, seeded(1), start, 11)
        for start, stop in ((0, 4), (4, 8), (8, 11))
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_the_default_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    moved(images(), "crop_flip", seeded(1))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((2, 3, 8, 8), "flip", "unknown augmentation 'flip'; known: none, crop, crop_flip"),
        ((3, 8, 8), "crop", r"images must be \(N, C, H, W\), not \(3, 8, 8\)"),
    ],
)
def test_augmentation_refuses(shape: tuple[int, ...], kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        moved(torch.zeros(shape), kind)


def test_normalise_by_hand() -> None:
    batch = torch.tensor([0, 51, 255], dtype=torch.uint8).view(3, 1, 1, 1).repeat(1, 2, 1, 1)
    result = normalise(batch, (0.5, 0.2), (0.5, 0.1))
    expected = torch.tensor([[-1.0, -2.0], [-0.6, 0.0], [1.0, 8.0]])
    assert result.dtype == torch.float32
    torch.testing.assert_close(result[:, :, 0, 0], expected, atol=1e-6, rtol=1e-6)


def test_normalise_refuses_what_is_normalised_already() -> None:
    with pytest.raises(TypeError, match=r"must be uint8, not torch\.float32"):
        normalise(torch.zeros(1, 1, 2, 2), (0.5,), (0.5,))
