"""DeepLabV3 and its initial weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainables.data.kinds.arrays import SegmentedImages
from trainables.models import make_model
from trainables.models.segmenter import Segmenter

SAMPLES = SegmentedImages((3, 32, 32), (0.5,) * 3, (0.5,) * 3)
NAME = "deeplabv3_mobilenet_v3_large"


def of_torchvision() -> Any:
    """Its models; importing them takes long, and most processes of the tests need none."""
    from torchvision import models

    return models


def made(pretrained: str | bool = False, samples: SegmentedImages = SAMPLES) -> Segmenter:
    model = make_model(
        NAME, input_shape=samples.shape, samples=samples, num_classes=4, pretrained=pretrained
    )
    assert isinstance(model, Segmenter)
    return model


def test_it_says_what_torchvisions_does() -> None:
    torch.manual_seed(0)
    make = of_torchvision().segmentation.deeplabv3_mobilenet_v3_large
    theirs = make(weights=None, weights_backbone=None, num_classes=4)
    ours, theirs = made().eval(), theirs.eval()
    *layers, last = theirs.classifier
    ours.encoder.load_state_dict(
        {key: value for key, value in theirs.state_dict().items() if "classifier.4" not in key}
    )
    with torch.no_grad():
        ours.head.weight.copy_(last.weight[:, :, 0, 0])
        ours.head.bias.copy_(last.bias)
        images = torch.randn(2, 3, 32, 32)
        torch.testing.assert_close(ours(images), theirs(images)["out"])
    assert len(layers) == 4


@pytest.mark.parametrize(
    "network",
    [
        lambda: of_torchvision().mobilenet_v3_large(weights=None),
        lambda: of_torchvision().segmentation.deeplabv3_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=7
        ),
    ],
    ids=["backbone", "whole"],
)
def test_it_starts_from_a_file_as_torchvision_has_it(
    tmp_path: Path, network: Callable[[], torch.nn.Module]
) -> None:
    given = network()
    torch.save(given.state_dict(), tmp_path / "weights.pth")
    found = made(str(tmp_path / "weights.pth"))
    theirs, ours = dict(given.named_parameters()), dict(found.encoder.named_parameters())
    first = "features.0.0.weight" if "features.0.0.weight" in theirs else "backbone.0.0.weight"
    assert torch.equal(ours["backbone.0.0.weight"], theirs[first])
    if "classifier.1.weight" in ours and first.startswith("backbone"):
        assert torch.equal(ours["classifier.1.weight"], theirs["classifier.1.weight"])


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    with pytest.raises(ValueError, match=r"pretrained=.*weights\.pth cannot be read: .*No such f"):
        made(str(path))
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"pretrained=.*weights\.pth cannot be read: "):
        made(str(path))
    torch.save({"conv1.weight": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match=r"weights\.pth has no .*: it is of another network"):
        made(str(path))
    with pytest.raises(ValueError, match="DeepLabV3 needs colour images, not images of 1 x 9 x 9"):
        made(samples=SegmentedImages((1, 9, 9), (0.5,), (0.5,)))


def test_a_resnet34_starts_from_a_file_of_timm_or_torchvision(tmp_path: Path) -> None:
    given = of_torchvision().resnet34(weights=None).eval()
    torch.save(given.state_dict(), tmp_path / "weights.pth")
    samples = SegmentedImages((3, 64, 64), (0.5,) * 3, (0.5,) * 3)
    shape = {"input_shape": samples.shape, "samples": samples, "num_classes": 4}
    path = str(tmp_path / "weights.pth")
    found: Any = make_model("deeplabv3_resnet34", **shape, pretrained=path).eval()
    ours, images = found.encoder.backbone, torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert ours(images).shape == (1, 512, 8, 8)  # an eighth, while a ResNet has 1/32
        assert found(images).shape == (1, 4, 64, 64)
        maps = given.layer1(given.maxpool(given.relu(given.bn1(given.conv1(images)))))
        stem = ours.maxpool(ours.act1(ours.bn1(ours.conv1(images))))
        torch.testing.assert_close(ours.layer1(stem), maps)
