from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from trainables.data import Tokens
from trainables.models import Classifier, make_model

SAMPLES = Tokens((30,), vocabulary=("cat", "dog", "of"))


def make(**options: object) -> Classifier:
    return make_model(
        "gpool_cnn", input_shape=(30,), samples=SAMPLES, num_classes=4, **options
    ).eval()


def test_layers_by_hand() -> None:
    model = make(vector_size=6, width=8)
    tokens = torch.randint(0, 5, (3, 30), dtype=torch.int32)
    weights = dict(model.named_parameters())
    found = F.embedding(tokens.long(), weights["encoder.embedding.weight"]).transpose(1, 2)
    for index in range(3):
        name = f"encoder.convolutions.{index}"
        found = F.relu(F.conv1d(found, weights[f"{name}.weight"], weights[f"{name}.bias"]))
        if index < 2:
            found = found.unfold(2, 5, 1).amax(-1)
    layer = F.linear(found.amax(2), weights["encoder.layer.weight"], weights["encoder.layer.bias"])
    expected = F.linear(F.relu(layer), weights["head.weight"], weights["head.bias"])
    torch.testing.assert_close(model(tokens), expected)


def test_more_padding_does_not_change_the_result() -> None:
    short = Tokens((4,), SAMPLES.vocabulary)
    model = make_model("gpool_cnn", input_shape=(4,), samples=short, num_classes=4).eval()
    tokens = torch.tensor([[2, 3, 1, 4]], dtype=torch.int32)
    torch.testing.assert_close(model(tokens), model(F.pad(tokens, (0, 17))))


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "glove.txt"
    path.write_text("the 9 9 9\ndog 1 2 3\ncat -1 0.5 0\n")
    return path


@pytest.mark.parametrize("tune", [False, True])
def test_vectors_from_a_glove_file(glove: Path, tune: bool) -> None:
    weight = make(vectors=str(glove), tune_vectors=tune).encoder.embedding.weight
    expected = [[0, 0, 0], [0, 0, 0], [-1, 0.5, 0], [1, 2, 3], [0, 0, 0]]
    torch.testing.assert_close(weight.detach(), torch.tensor(expected))
    assert weight.requires_grad == tune


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("other 1 2\n", "has no vector of any word of the training texts"),
        ("dog 1 2\ncat 1\n", "the line of 'cat' is not a word and 2 numbers"),
        ("dog 1 x\n", "the line of 'dog' is not a word and 2 numbers"),
    ],
)
def test_what_is_no_glove_file_is_refused(glove: Path, content: str, message: str) -> None:
    glove.write_text(content)
    with pytest.raises(ValueError, match=message):
        make(vectors=str(glove))
