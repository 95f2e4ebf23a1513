from typing import Any

import pytest
import torch

from trainables.models import check_model_options, make_model, model_options

Shape = tuple[int, int, int]


@pytest.mark.parametrize(
    ("name", "input_shape", "num_features"),
    [
        ("timm/resnet18", (1, 32, 32), 512),
        ("timm/resnet18.a1_in1k", (3, 32, 32), 512),
        ("timm/vit_tiny_patch16_224", (3, 48, 32), 192),  # built for one image size
        ("timm/mobilenetv3_small_050", (3, 32, 32), 1024),  # its num_features is 288
        ("timm/efficientvit_m1", (3, 32, 32), 192),  # the model of RefCal
    ],
)
def test_pooled_features_and_a_fresh_head(name: str, input_shape: Shape, num_features: int) -> None:
    model = make_model(name, input_shape=input_shape, num_classes=7)
    assert all(module.training for module in model.modules())
    logits, features = model(torch.randn(2, *input_shape), return_features=True)
    assert logits.shape == (2, 7)
    assert features.shape == (2, num_features)
    logits.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_weights_depend_on_torchs_default_generator_alone() -> None:
    def head(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        model = make_model("timm/resnet18", input_shape=(1, 32, 32), num_classes=3)
        return torch.cat([model.head.weight.flatten(), next(model.parameters()).flatten()])

    assert torch.equal(head(1), head(1))
    assert not torch.equal(head(1), head(2))


def test_options() -> None:
    assert model_options("timm/resnet18") == {
        "pretrained": False,
        "drop_rate": 0.0,
        "drop_path_rate": None,
    }


@pytest.mark.parametrize("option", ["drop_rate", "drop_path_rate"])
def test_dropping_makes_training_random(option: str) -> None:
    options = {option: 0.5}
    model = make_model("timm/resnet18", input_shape=(3, 32, 32), num_classes=3, **options)
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.reset_parameters()  # timm starts residual branches at zero
    inputs = torch.randn(8, 3, 32, 32)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


@pytest.mark.parametrize(
    "name", ["levit_128s", "efficientvit_m0", "mobilenetv3_small_050", "vit_tiny_patch16_224"]
)
def test_drop_rate_drops_features_of_any_model(name: str) -> None:
    shape = (3, 224, 224) if name == "levit_128s" else (3, 32, 32)
    model = make_model(f"timm/{name}", input_shape=shape, num_classes=3, drop_rate=0.5)
    images = torch.randn(4, *shape)
    _, features = model(images, return_features=True)
    dropped = (features == 0).float().mean()
    assert dropped > 0.4
    _, features = model.eval()(images, return_features=True)
    assert (features == 0).float().mean() < dropped - 0.2


@pytest.mark.parametrize(
    ("name", "input_shape", "options", "message"),
    [
        ("timm/restnet18", (3, 32, 32), {}, r"'timm/restnet18' \(did you mean 'resnet18'\?\)"),
        ("timm/inception_v3", (3, 32, 32), {}, r"cannot be built for \(3, 32, 32\) .*Kernel size"),
        ("timm/vgg11", (3, 32, 32), {"drop_path_rate": 0.1}, "drop_path_rate=0.1: .*unexpected"),
        # timm takes the rate for this model, which has no residual branches, and ignores it.
        ("timm/mobilenetv1_100", (3, 32, 32), {"drop_path_rate": 0.1}, "no residual branch"),
        ("timm/resnet18", (3, 32, 32), {"drop_rate": 1.0}, r"drop_rate=1.0: expected a number in"),
        ("timm/resnet18", (3, 32, 32), {"width": 1}, "unknown option 'width'"),
    ],
)
def test_refused(name: str, input_shape: Shape, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(name, input_shape=input_shape, num_classes=3, **options)


def test_names_are_checked_without_building() -> None:
    check_model_options("timm/resnet18", pretrained=True)
    with pytest.raises(ValueError, match=r"unknown model 'timm/resnet1x'"):
        check_model_options("timm/resnet1x")
