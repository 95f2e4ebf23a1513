"""Texts are loaded in the form that the model of the sweep needs."""

from pathlib import Path

import pytest

from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import parse_sweep


@pytest.mark.parametrize(
    ("model", "options", "kind"),
    [
        ({}, {}, "WeightedWords"),
        ({"model": "text_mlp"}, {}, "WeightedWords"),
        ({"model": "gpool_cnn"}, {}, "Tokens"),
        ({}, {"text_form": "sequence"}, "Tokens"),
        ({"model": "tests.sweeps.planning.test_data:own_model"}, {}, "Tokens"),
        ({"trainable": "tests.sweeps.planning.test_data:own_loop"}, {}, "Tokens"),
    ],
)
def test_the_model_decides_on_the_form(
    tmp_path: Path, model: dict[str, str], options: dict[str, str], kind: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "some words,x\nother words,y\n" * 20)
    data = {"name": "csv", "train": str(path), "text": "text", **options}
    sweep = parse_sweep({"name": "a", "dataset": data, "losses": ["focal"], **model})
    assert type(load_data(sweep).samples).__name__ == kind


def own_model(*, input_shape: tuple[int, ...], num_classes: int) -> None:
    """A model of which only the signature is used."""


def own_loop() -> None:
    """Likewise."""
