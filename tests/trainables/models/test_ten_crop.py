"""Evaluation on ten crops."""

from typing import Any

import pytest
import torch
from torchvision.transforms import functional as reference

from trainables.data import Arrays
from trainables.models import check_model_options, make_model
from trainables.models.ten_crop import ten_crops

SHAPE = {"input_shape": (1, 16, 24), "num_classes": 3}


def test_the_crops_are_those_of_torchvision() -> None:
    images = torch.randn(2, 1, 16, 24)
    expected = reference.ten_crop(images, [14, 21])
    torch.testing.assert_close(torch.stack(ten_crops(images)), torch.stack(expected))


def test_logits_are_means_over_the_crops_in_evaluation_only() -> None:
    torch.manual_seed(0)
    plain = make_model("resnet18_cifar", **SHAPE)
    torch.manual_seed(0)
    model = make_model("resnet18_cifar", **SHAPE, ten_crop=True)
    images = torch.randn(2, 1, 16, 24)
    with torch.no_grad():
        found, expected = model.eval()(images), plain.eval()
        means = torch.stack([expected(crop) for crop in ten_crops(images)]).mean(0)
        torch.testing.assert_close(found, means)
        torch.testing.assert_close(model.train()(images), plain.train()(images))


@pytest.mark.parametrize(
    ("name", "options", "shape", "message"),
    [
        (
            "mlp",
            {"ten_crop": True, "samples": Arrays.unscaled((7,))},
            (7,),
            "ten_crop is for images with one prediction each",
        ),
        (
            "small_cnn",
            {"ten_crop": True},
            (1, 16, 16),
            "TenCrop returns shape .2, 256. for training",
        ),
        ("small_cnn", {"ten_crop": 10}, (1, 8, 8), "ten_crop=10: expected true or false"),
    ],
)
def test_what_cannot_be_cropped_is_refused(
    name: str, options: dict[str, Any], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(name, input_shape=shape, num_classes=2, **options)
    check_model_options("small_cnn", ten_crop=True)
