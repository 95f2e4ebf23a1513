"""Plain modules as models, and copies of modules with new weights."""

from collections.abc import Callable
from pathlib import Path

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
