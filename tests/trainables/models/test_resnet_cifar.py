import pytest
import torch
from torch import nn
from torchvision.ops import StochasticDepth

from trainables.models import make_model

PUBLISHED_PARAMETERS = {
    "resnet18_cifar": 11_173_962,
    "resnet34_cifar": 21_282_122,
    "resnet50_cifar": 23_520_842,
    "resnet101_cifar": 42_512_970,
    "resnet110_cifar": 1_727_962,  # 1.7M: He et al. 2016, table 6
    "preresnet56_cifar": 855_578,  # 0.85M: ResNet-56 there, plus the weights of the shortcuts
    "wide_resnet28_10_cifar": 36_479_194,  # 36.5M: Zagoruyko and Komodakis 2016, table 5
    "densenet40_cifar": 1_019_722,  # 1.0M: Huang et al. 2017, table 2
    "densenet121_cifar": 6_956_298,
}


@pytest.mark.parametrize(("name", "count"), PUBLISHED_PARAMETERS.items())
def test_number_of_parameters(name: str, count: int) -> None:
    with torch.device("meta"):
        model = make_model(name, input_shape=(3, 32, 32), num_classes=10)
    assert sum(weight.numel() for weight in model.parameters()) == count


def test_number_of_parameters_of_the_calibration_literatures_own_forms() -> None:
    """Only published as code; counted here layer by layer."""

    def layer(channels: int, width: int, kernel: int = 3) -> int:
        return channels * width * kernel**2 + 2 * width  # including BatchNorm

    wide = layer(3, 16)
    for channels, width in ((16, 160), (160, 320), (320, 640)):
        wide += layer(channels, width) + layer(channels, width, 1) + 7 * layer(width, width)
    bottlenecks = 3 * (layer(1024, 256, 1) + layer(256, 256) + layer(256, 1024, 1))
    expected = {
        "wide_resnet26_10_cifar": wide + 640 * 10 + 10,
        "resnet110_bottleneck_cifar": PUBLISHED_PARAMETERS["resnet101_cifar"] + bottlenecks,
    }
    for name, count in expected.items():
        test_number_of_parameters(name, count)


def test_densenet_equals_torchvisions_with_the_stem_for_cifar() -> None:
    import torchvision

    theirs = torchvision.models.densenet121(num_classes=10)
    theirs.features.conv0 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    for name in ("norm0", "relu0", "pool0"):
        setattr(theirs.features, name, nn.Identity())
    ours = make_model("densenet121_cifar", input_shape=(3, 32, 32), num_classes=10)
    weights = zip(ours.state_dict(), theirs.state_dict().values(), strict=True)
    ours.load_state_dict(dict(weights))
    inputs = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(ours(inputs), theirs(inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("resnet110_cifar", "encoder.50.branch.0.weight"),
        ("densenet40_cifar", "encoder.3.branch.2.weight"),
    ],
)
def test_convolutions_start_as_in_the_papers(name: str, weight: str) -> None:
    model = make_model(name, input_shape=(3, 32, 32), num_classes=10)
    drawn = dict(model.named_parameters())[weight]
    fan_out = drawn.shape[0] * 9
    assert drawn.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)


@pytest.mark.parametrize("name", ["resnet18_cifar", "resnet50_cifar"])
def test_equals_torchvisions_resnet_with_the_stem_for_cifar(name: str) -> None:
    import torchvision

    theirs = getattr(torchvision.models, name.removesuffix("_cifar"))(num_classes=10)
    theirs.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    theirs.maxpool = nn.Identity()
    ours = make_model(name, input_shape=(3, 32, 32), num_classes=10)
    # Both list their layers in the order of application.
    weights = zip(ours.state_dict(), theirs.state_dict().values(), strict=True)
    ours.load_state_dict(dict(weights))
    inputs = torch.randn(4, 3, 32, 32)
    with torch.no_grad():  # training mode, so batch statistics keep activations bounded
        torch.testing.assert_close(ours(inputs), theirs(inputs), rtol=1e-4, atol=1e-4)


def test_stochastic_depth_skips_late_branches_most() -> None:
    options = {"input_shape": (3, 8, 8), "num_classes": 10}
    model = make_model("resnet110_cifar", **options, drop_path_rate=0.5)
    rates = [each.p for each in model.modules() if isinstance(each, StochasticDepth)]
    assert rates == pytest.approx([0.5 * n / 54 for n in range(1, 55)])
    images = torch.randn(4, 3, 8, 8)
    model.eval()
    assert torch.equal(model(images), model(images))
    model.train()
    assert not torch.equal(model(images), model(images))
    plain = make_model("resnet110_cifar", **options)
    assert model.state_dict().keys() == plain.state_dict().keys()
