"""Tests of all models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from trainables.data.core.samples import Samples
from trainables.data.kinds.arrays import Arrays, Images, SegmentedImages
from trainables.data.kinds.table import TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.exported import export_program, load_program
from trainables.models import (
    Classifier,
    available_models,
    check_model_options,
    make_model,
    model_builder,
    model_options,
)

# The same code builds the others of their family, which are always tested.
DEEP = (
    "resnet101_cifar",
    "resnet110_bottleneck_cifar",
    "wide_resnet26_10_cifar",
    "wide_resnet28_10_cifar",
)
MODELS = [
    pytest.param(name, marks=pytest.mark.slow if name in DEEP else ())
    for name in available_models()
]
each_model = pytest.mark.parametrize("name", MODELS)


def images(*shape: int) -> Samples:
    return Images(shape, (0.5,) * shape[0], (0.5,) * shape[0])


def make(name: str, samples: Samples, **options: Any) -> Classifier:
    return make_model(name, input_shape=samples.shape, samples=samples, **options)


TEXTS = Tokens((9,), vocabulary=("a", "b", "c"))
TABLE = TableRows(
    numeric=("x", "y"),
    mean=(1.0, 2.0),
    std=(3.0, 4.0),
    has_missing=(True, False),
    categorical=("z",),
    levels=(("p", "q"),),
)
PIXELS = SegmentedImages((3, 33, 40), (0.5,) * 3, (0.5,) * 3)
WEIGHTED = WeightedWords((9, 2), vocabulary=("a", "b", "c", "d"), idf=(1.0, 1.2, 1.5, 2.0))
OTHERS: dict[str, Samples] = {
    "text_mlp": WEIGHTED,
    "gpool_cnn": TEXTS,
    "table_mlp": TABLE,
    "small_fcn": PIXELS,
    "deeplabv3_resnet34": PIXELS,
    "deeplabv3_resnet50": PIXELS,
    "deeplabv3_mobilenet_v3_large": PIXELS,
}


def rows(samples: Samples, count: int) -> torch.Tensor:
    """Inputs of a model."""
    if isinstance(samples, Tokens):
        return torch.arange(count * samples.shape[0], dtype=torch.int32).reshape(count, -1) % 5
    if isinstance(samples, WeightedWords):
        words = torch.arange(count * samples.shape[0]).reshape(count, -1) % samples.num_tokens
        return torch.stack([words.float(), torch.rand(count, samples.shape[0])], 2)
    if isinstance(samples, TableRows):
        codes = torch.arange(count) % 3
        flags = torch.arange(count) % 2
        return torch.cat([torch.randn(count, 2), torch.stack([flags, codes], 1)], 1)
    return torch.randn(count, *samples.shape)


def kinds(name: str, *others: Samples) -> tuple[Samples, ...]:
    return (OTHERS[name],) if name in OTHERS else others


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        pytest.param(name, samples, marks=pytest.mark.slow if name in DEEP else ())
        for name in available_models()
        for samples in kinds(name, images(1, 8, 8), images(3, 17, 12))
    ],
    ids=str,
)
def test_logits_are_the_head_of_the_features(name: str, samples: Samples) -> None:
    model = make(name, samples, num_classes=5).eval()
    inputs = rows(samples, 2)
    with torch.no_grad():
        logits, features = model(inputs, return_features=True)
        torch.testing.assert_close(model(inputs), logits)
        found = model.head(features.movedim(1, -1)).movedim(-1, 1)
        if samples.each_pixel:  # interpolated to the size of the image
            found = F.interpolate(found, samples.shape[1:], mode="bilinear", align_corners=False)
        torch.testing.assert_close(logits, found)
    assert logits.shape == (2, 5, *(samples.shape[1:] if samples.each_pixel else ()))
    assert features.shape[:2] == (2, model.head.in_features)


@each_model
def test_every_weight_gets_a_gradient(name: str) -> None:
    (samples,) = kinds(name, images(1, 8, 8))
    model = make(name, samples, num_classes=3)
    model(rows(samples, 4)).square().sum().backward()
    without = [key for key, weight in model.named_parameters() if weight.grad is None]
    assert without == []


@each_model
def test_weights_depend_on_torchs_default_generator_alone(name: str) -> None:
    def weights(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        (samples,) = kinds(name, images(1, 8, 8))
        return make(name, samples, num_classes=3).state_dict()

    first, again, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


@each_model
def test_every_builder_says_what_it_is(name: str) -> None:
    text = model_builder(name).__doc__ or ""
    for option in model_options(name):
        assert f"{option}: " in text
    assert text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "smal_cnn"}, r"unknown model 'smal_cnn' \(did you mean 'small_cnn'\?\).*timm/<"),
        ({"width": 0}, "model 'small_cnn': width=0: expected an integer of at least 1"),
        ({"dropout": 1.0}, r"dropout=1.0: expected a number in \[0, 1\)"),
        ({"depth": 3}, r"unknown option 'depth'.* width \(16\), dropout \(0.0\)"),
        ({"input_shape": ()}, r"input_shape=\(\) must be one size or more"),
        ({"input_shape": (0, 8, 8)}, r"input_shape=\(0, 8, 8\) must be .* each at least 1"),
        ({"name": "mlp"}, "model 'mlp' needs samples="),
        (
            {"name": "resnet18_cifar", "samples": TEXTS},
            "'resnet18_cifar' takes samples of 3 axes, while the data are texts of 9 tokens; their "
            "default model is gpool_cnn",
        ),
        (
            {"name": "gpool_cnn", "samples": TABLE},
            "'gpool_cnn' takes tokens, while the data are table rows of 2 numeric and 1 "
            "categorical columns; their default model is table_mlp",
        ),
        (
            {"samples": Arrays.unscaled((9,))},
            "'small_cnn' takes samples of 3 axes, while the data are arrays of 9 numbers; their "
            "default model is mlp",
        ),
        (
            {"samples": PIXELS},
            "'small_cnn' takes samples that are each of a class, while the data are images of 3 x "
            "33 x 40 .* with a class of each pixel; their default model is small_fcn",
        ),
        (
            {"name": "mlp", "samples": PIXELS},
            "'mlp' takes arrays or images or tables, while the data are images .*; their default",
        ),
        (
            {"name": "deeplabv3_resnet50", "samples": images(3, 8, 8)},
            "takes images with a class of each pixel, while the data are images of 3 x 8 x 8 .*; "
            "their default model is small_cnn",
        ),
        ({"num_classes": 1}, "num_classes=1 must be at least 2"),
    ],
)
def test_make_model_refuses(changes: dict[str, Any], message: str) -> None:
    arguments = {"name": "small_cnn", "input_shape": (1, 8, 8), "num_classes": 3, **changes}
    with pytest.raises(ValueError, match=message):
        make_model(**arguments)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_models.py").write_text(
        "from torch import nn\n"
        "from trainables.models import Classifier\n"
        "def linear(*, input_shape, num_classes, bias: bool = True):\n"
        "    channels, height, width = input_shape\n"
        "    head = nn.Linear(channels * height * width, num_classes, bias=bias)\n"
        "    return Classifier(nn.Flatten(), head)\n"
        "def headless(*, input_shape, num_classes):\n"
        "    return nn.Flatten()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "own_models"


def test_own_model(own_module: str) -> None:
    model = make_model(f"{own_module}:linear", input_shape=(2, 3, 4), num_classes=5, bias=False)
    assert isinstance(model.encoder, nn.Flatten)
    assert model(torch.zeros(1, 2, 3, 4)).shape == (1, 5)
    with pytest.raises(ValueError, match="bias=1: expected true or false"):
        check_model_options(f"{own_module}:linear", bias=1)


def test_own_model_must_end_in_a_linear_layer(own_module: str) -> None:
    with pytest.raises(ValueError, match=r"'own_models:headless': the output of Flatten is not t"):
        make_model(f"{own_module}:headless", input_shape=(1, 8, 8), num_classes=3)


@pytest.mark.parametrize("has_missing", [(True, False), (False, False)])
def test_a_classifier_of_rows_with_missing_numbers_is_exported(
    has_missing: tuple[bool, ...],
) -> None:
    samples = replace(TABLE, has_missing=has_missing)
    network = make_model("table_mlp", input_shape=samples.shape, num_classes=3, samples=samples)
    classifier = CalibratedClassifier(network, samples, 2.0, ("a", "b", "c"))
    rows = np.array([[0.5, 1, 1], [np.nan, 2, 0], [3, -1, 2]], np.float32)
    program = load_program(export_program(classifier, rows)).module()
    assert torch.allclose(program(torch.from_numpy(rows)), classifier(torch.from_numpy(rows)))
