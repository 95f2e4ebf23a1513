import pytest
import torch
from torch import nn

from trainables.models import make_model

PUBLISHED_PARAMETERS = {
    "resnet18_cifar": 11_173_962,
    "resnet34_cifar": 21_282_122,
    "resnet50_cifar": 23_520_842,
    "resnet101_cifar": 42_512_970,
}


@pytest.mark.parametrize(("name", "count"), PUBLISHED_PARAMETERS.items())
def test_number_of_parameters(name: str, count: int) -> None:
    with torch.device("meta"):
        model = make_model(name, input_shape=(3, 32, 32), num_classes=10)
    assert sum(weight.numel() for weight in model.parameters()) == count


@pytest.mark.parametrize("name", ["resnet18_cifar", "resnet50_cifar"])
def test_equals_torchvisions_resnet_with_the_stem_for_cifar(name: str) -> None:
    import torchvision

    theirs = getattr(torchvision.models, name.removesuffix("_cifar"))(num_classes=10)
    theirs.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    theirs.maxpool = nn.Identity()
    ours = make_model(name, input_shape=(3, 32, 32), num_classes=10)
    # Both list their layers in the order in which they are applied.
    weights = zip(ours.state_dict(), theirs.state_dict().values(), strict=True)
    ours.load_state_dict(dict(weights))
    inputs = torch.randn(4, 3, 32, 32)
    with torch.no_grad():  # in training mode: batch statistics do not let activations explode
        torch.testing.assert_close(ours(inputs), theirs(inputs), rtol=1e-4, atol=1e-4)
