"""Random-resized crops, colour distortion and erasing of batches."""

import pytest
import torch
from torch import Tensor
from torchvision.transforms import functional as reference

from trainables.data.kinds import distortion
from trainables.data.kinds.arrays import Images, SegmentedImages
from trainables.data.kinds.distortion import DISTORTIONS, distort


def images(count: int = 5, channels: int = 3, size: int = 12) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, size, size), generator=draw, dtype=torch.uint8)


def test_crops_are_those_of_torchvision() -> None:
    batch = images(2).float()
    box = torch.tensor([[2, 1], [3, 0], [6, 9], [8, 12]]) / 12
    found = distortion.resized_crop(batch, box, torch.tensor([False, True]))
    for row, (top, left, height, width) in enumerate([(2, 3, 6, 8), (1, 0, 9, 12)]):
        expected = reference.resized_crop(
            batch[row : row + 1], top, left, height, width, [12, 12], antialias=False
        )
        inner = (found[row], expected[0].flip(2) if row else expected[0])
        # At the borders of a crop torchvision repeats its pixels, while the image continues there.
        torch.testing.assert_close(*(each[:, 2:-2, 2:-2] for each in inner), atol=0.01, rtol=0)


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.4])
def test_colours_are_those_of_torchvision(factor: float) -> None:
    batch = images(3).float()
    factors = torch.full((3,), factor)
    grey = distortion.luma(batch)
    for found, change in (
        (distortion.blended(batch, grey, factors), reference.adjust_saturation),
        (
            distortion.blended(batch, grey.mean((2, 3), keepdim=True), factors),
            reference.adjust_contrast,
        ),
    ):
        expected = change(batch / 255, factor) * 255
        torch.testing.assert_close(found, expected, atol=0.1, rtol=1e-3)


def test_a_turned_hue_keeps_brightness_and_a_whole_turn_is_none() -> None:
    batch = 128 + (images(3).float() - 128) / 8  # so that nothing is clamped
    turned = distortion.turned(batch, torch.tensor([0.0, 1.0, 0.3]))
    torch.testing.assert_close(turned[:2], batch[:2], atol=1e-3, rtol=0)
    torch.testing.assert_close(distortion.luma(turned), distortion.luma(batch), atol=0.01, rtol=0)
    assert (turned[2] - batch[2]).abs().max() > 5


@pytest.mark.parametrize("kind", DISTORTIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_result_does_not_depend_on_the_number_of_workers(kind: str, channels: int) -> None:
    batch, rule = images(6, channels), DISTORTIONS[kind]
    whole, *parts = (
        distort(batch[rows], rule, torch.Generator().manual_seed(2), rows.start, 6)
        for rows in (slice(0, 6), slice(0, 4), slice(4, 6))
    )
    assert torch.equal(whole, torch.cat(parts))
    assert whole.dtype == torch.uint8 and whole.shape == batch.shape
    assert not torch.equal(whole, batch)


def test_a_quarter_of_the_images_loses_a_rectangle() -> None:
    white = torch.full((800, 3, 24, 24), 255, dtype=torch.uint8)
    found = distort(white, DISTORTIONS["imagenet"], torch.Generator().manual_seed(1))
    shares = (found == 0).all(1).float().mean((1, 2))
    assert 0.2 < (shares > 0).float().mean() < 0.3
    assert 0.1 < shares[shares > 0].mean() < 0.25


def test_images_know_them_and_masks_do_not() -> None:
    kind = Images.measured(images().numpy())
    drawn = torch.Generator().manual_seed(3)
    prepared = kind.prepare(images(), "simaugment", drawn)
    again = distort(images(), DISTORTIONS["simaugment"], drawn.manual_seed(3))
    assert torch.equal(prepared, kind.normalise(again))
    assert set(Images.augmentations) - set(SegmentedImages.augmentations) == set(DISTORTIONS)
