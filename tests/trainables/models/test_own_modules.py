"""Plain modules as models, and copies of modules with new weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trainables.data.kinds.tokens import Tokens
from trainables.files.storage import Folder
from trainables.models import Classifier, make_model
from trainables.models.fresh import Fresh
from trainables.models.splitting import as_classifier, no_input
from trainables.plugins.saved_objects import keep


class Own(nn.Module):
    """A module whose last layer is not its last attribute."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.head = nn.Linear(6, classes)
        self.before = nn.Linear(8, 6)
        self.aside = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        self.aside(x)
        return self.head(torch.relu(self.before(x)))


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3)),
        lambda: nn.Linear(8, 3),
        lambda: nn.Sequential(nn.LazyLinear(4), nn.BatchNorm1d(4), nn.Dropout(), nn.LazyLinear(3)),
        Own,
    ],
)
def test_a_module_is_split_where_its_last_layer_gets_the_features(
    build: Callable[[], nn.Module],
) -> None:
    model = build()
    inputs = torch.randn(5, 8)
    model(inputs)
    whole = model.eval()(inputs)
    classifier = as_classifier(model, inputs, 3)
    logits, features = classifier.eval()(inputs, return_features=True)
    assert torch.equal(logits, whole)
    assert features.shape == (5, classifier.head.in_features)
    assert as_classifier(classifier, inputs, 3) is classifier


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(8, 3), nn.Softmax(1)), "no softmax after it"),
        (nn.Flatten(), "the output of Flatten is not that of a linear layer"),
        (nn.Linear(8, 4), "Linear gives 4 logits, while the data have 3 classes"),
        (nn.Linear(9, 3), r"cannot take samples of shape \(8,\)"),
    ],
)
def test_what_does_not_end_in_a_layer_to_the_logits_is_refused(
    model: nn.Module, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        as_classifier(model, torch.zeros(2, 8), 3)


class Squeezed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x.squeeze())


class Auxiliary(Squeezed):
    def forward(self, x: torch.Tensor) -> Any:
        found = self.last(x.flatten(1))
        return (found, found) if self.training else found


class NotInTraining(Squeezed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise KeyError("mask")
        return self.last(x.flatten(1))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (Squeezed, r"returns shape \(4,\) for one sample; expected \(1, 4\)\. squeeze\(\) needs"),
        (Auxiliary, "Auxiliary returns tuple in training mode; allowed: .* auxiliary outputs"),
        (NotInTraining, r"cannot take samples of shape \(4,\) in training mode: KeyError: 'mask'"),
    ],
)
def test_what_fails_with_one_sample_or_in_training_is_refused(
    tmp_path: Path, build: Callable[[], nn.Module], message: str
) -> None:
    name = keep(Folder(str(tmp_path)), build, "build")
    with pytest.raises(ValueError, match=message):
        make_model(name, input_shape=(4,), num_classes=3)


def test_checks_leave_statistics_and_random_numbers_as_they_are(tmp_path: Path) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3))

    torch.manual_seed(1)
    build()
    expected = torch.rand(1)
    torch.manual_seed(1)
    model = make_model(keep(Folder(str(tmp_path)), build, "build"), input_shape=(4,), num_classes=3)
    assert torch.equal(torch.rand(1), expected)
    assert model.training
    norm = model.encoder[0]
    assert (norm.num_batches_tracked.item(), norm.running_var.tolist()) == (0, [1.0] * 4)


GPU = torch.device("cpu", 0)  # for the test, equal to the CPU in everything but its number


class GpuOnly(nn.Linear):
    """A module that runs only where it was moved to."""

    place: object = None

    def to(self, *arguments: object, **named: object) -> "GpuOnly":
        self.place = arguments[0]
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.place != GPU:
            raise RuntimeError("this kernel needs a GPU")
        return super().forward(x)


def test_a_model_that_runs_on_gpus_only_is_checked_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = GpuOnly(4, 3)
    with pytest.raises(ValueError, match="this kernel needs a GPU"):
        as_classifier(model, torch.zeros(2, 4), 3)
    monkeypatch.setattr("trainables.models.base.first_gpu", lambda: GPU)
    assert as_classifier(model, torch.zeros(2, 4), 3).head is model
    assert model.place == torch.device("cpu")


def test_a_builder_is_given_what_it_names(tmp_path: Path) -> None:
    builders: list[Callable[..., nn.Module]] = [
        lambda: nn.Linear(8, 3),
        lambda num_classes: nn.Linear(8, num_classes),
        lambda input_shape: nn.Linear(*input_shape, 3),
        lambda **more: nn.Linear(8, more["num_classes"]),
    ]
    for build in builders:
        name = keep(Folder(str(tmp_path)), build, "build")
        assert isinstance(make_model(name, input_shape=(8,), num_classes=3), Classifier)


def test_models_of_texts_are_tried_with_texts() -> None:
    tokens = no_input((7,), Tokens((7,), ("a", "b")))
    assert tokens.dtype == torch.int32
    assert nn.Embedding(4, 2)(tokens).shape == (2, 7, 2)


def test_a_fresh_copy_is_what_its_class_would_build() -> None:
    build = Fresh(nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)))
    torch.manual_seed(7)
    expected = nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).state_dict()
    torch.manual_seed(7)
    found = build().state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    torch.manual_seed(8)
    assert not torch.equal(build()[0].weight, found["0.weight"])


class OwnToken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(3))


def trained() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    model(torch.randn(4, 8))
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(OwnToken()), r"its part '0' \(OwnToken\) has no reset_parameters\(\)"),
        (nn.MultiheadAttention(4, 2), "model=lambda: MultiheadAttention"),
        (trained(), "'1.running_mean' shows that they are not freshly drawn"),
    ],
)
def test_a_module_whose_weights_matter_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Fresh(model)
