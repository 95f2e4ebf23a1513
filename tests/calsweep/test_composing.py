"""Objects in memory become the sweep file that a user would write."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import calsweep
from calsweep.composing import Composer
from sweeps.planning.checks import check_sweep
from sweeps.planning.data import load_data
from sweeps.sweep_file.loading import parse_sweep
from tests.builders import make_sweep, new_store
from trainables.data.core.base import Dataset
from trainables.data.kinds.table import TableRows
from trainables.models.mlp import mlp

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
ONE = (np.ones((2, 2)), [0, 1])


class Halved(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits, targets) / 2


def loaded(folder: Path, dataset: Any) -> Dataset:
    section = Composer(str(folder)).dataset(dataset)
    return load_data(make_sweep(dataset=section))


@pytest.mark.parametrize(
    ("samples", "shape", "kind"),
    [
        (RNG.normal(size=(60, 5)), (5,), "Arrays"),
        (torch.randn(60, 2, 9), (2, 9), "Arrays"),
        (RNG.integers(0, 255, (60, 8, 8, 3), np.uint8), (3, 8, 8), "Images"),
        (["one two", "two three", "three"] * 20, (2,), "Tokens"),
        (
            pd.DataFrame({"size": RNG.normal(size=60), "hue": ["red", "blue"] * 30}),
            (2,),
            "TableRows",
        ),
    ],
)
def test_samples_in_memory_are_a_dataset(
    samples: Any, shape: tuple[int, ...], kind: str, tmp_path: Path
) -> None:
    words = np.array(["a", "b", "c"], dtype=object)[LABELS]
    data = loaded(tmp_path, (samples, words))
    assert (data.samples.shape, type(data.samples).__name__) == (shape, kind)
    assert data.classes == ("a", "b", "c")
    assert len(data.train) + len(data.validation) + len(data.test) == 60


@pytest.mark.parametrize(
    "samples",
    [RNG.normal(size=(60, 5)), ["one two", "two three", "three"] * 20, pd.DataFrame({"x": LABELS})],
)
def test_class_probabilities_and_weights(samples: Any, tmp_path: Path) -> None:
    soft, weights = np.eye(3)[LABELS] * 0.7 + 0.1, np.arange(60) + 1
    data = loaded(tmp_path, (samples, soft, weights))
    assert data.train.soft is not None and data.train.weights is not None
    assert np.unique(data.train.soft.round(3)).tolist() == pytest.approx([0.1, 0.8])
    order = data.train.weights.astype(int) - 1
    np.testing.assert_allclose(data.train.soft, soft[order], rtol=1e-6)
    certain = loaded(tmp_path, ((samples, soft), (samples, soft.argmax(1))))
    assert certain.test.soft is None
    np.testing.assert_array_equal(certain.test.labels, LABELS)


def test_arrays_are_written_once_under_a_name_of_their_content(tmp_path: Path) -> None:
    composer = Composer(str(tmp_path))
    samples = RNG.normal(size=(60, 4))
    first = composer.dataset((samples, LABELS))
    [file] = (tmp_path / "data").iterdir()
    written = file.stat().st_mtime_ns
    assert composer.dataset((samples.copy(), LABELS.tolist())) == first
    assert file.stat().st_mtime_ns == written
    assert composer.dataset((samples, LABELS[::-1])) != first
    assert len(list((tmp_path / "data").iterdir())) == 2


def test_a_test_split_of_ones_own(tmp_path: Path) -> None:
    test = RNG.normal(size=(9, 4))
    data = loaded(tmp_path, ((RNG.normal(size=(60, 4)), LABELS), (test, LABELS[:9])))
    assert np.allclose(data.test.inputs, test)


@pytest.mark.parametrize("frames", [False, True])
def test_all_three_splits_of_ones_own(tmp_path: Path, frames: bool) -> None:
    sizes = (60, 12, 9)
    inputs = [RNG.normal(size=(size, 4)) for size in sizes]
    parts = [
        (pd.DataFrame(x, columns=[*"abcd"]) if frames else x, LABELS[: len(x)]) for x in inputs
    ]
    weights = np.arange(60) + 1.0
    data = loaded(tmp_path, ((*parts[0], weights), *parts[1:]))
    if isinstance(data.samples, TableRows):
        inputs = [(x - data.samples.mean) / data.samples.std for x in inputs]
    for split, x in zip((data.train, data.validation, data.test), inputs, strict=True):
        np.testing.assert_allclose(split.inputs, x, atol=1e-5)
    assert data.train.weights is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset": [1, 2]}, "dataset is a list; allowed: samples and labels"),
        ({"dataset": (np.ones((4, 2)), [0, 1])}, "there are 4 samples, and labels of shape"),
        ({"dataset": (np.array(["a"]), [0.5])}, "labels must be integers from 0, words"),
        ({"dataset": (np.ones((2, 2), object), [0, 1])}, "samples must be numbers"),
        ({"dataset": (ONE, ONE, np.ones(3))}, "dataset: test is a ndarray; it must be samples and"),
        ({"dataset": (ONE, (1,), ONE)}, "dataset: validation is a tuple of 1; it must be samples"),
        ({"dataset": (ONE,) * 4}, "dataset is a tuple of 4; allowed: .*, validation, test"),
        ({"dataset": (ONE, (*ONE, [1, 1]))}, "dataset: test: weights are for samples to train on"),
        ({"dataset": None}, "dataset is missing; give dataset and losses, or a sweep file"),
        ({"model": 3}, "model is a int; allowed: the name of a model"),
        ({"model": nn.MultiheadAttention(4, 2)}, "model: this MultiheadAttention cannot be"),
        ({"losses": [3]}, "losses: 3 is not allowed; allowed: the name of a loss"),
        ({"losses": ["focal"], "epochs": 0}, "set 'training.epochs': training.epochs = 0 is not"),
        ({"set": {"losses.x": 1}}, "set 'losses.x': losses has no keys inside"),
        ({"set": {"search.trails": 1}}, r"unknown key 'trails' .*did you mean 'trials'"),
        ({"losses": []}, "calsweep.run: losses is empty"),
        ({"sweep": "quickstart"}, "dataset is given besides a sweep"),
        ({"sweep": ONE}, "sweep is a tuple; allowed: .*; give data by dataset="),
    ],
)
def test_what_cannot_be_used_is_refused_with_one_message(
    given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    usual: dict[str, Any] = {"dataset": "digits", "losses": ["focal"], "name": "x"}
    with pytest.raises(calsweep.UserError, match=message):
        calsweep.run(**{**usual, **given}, storage=tmp_path)
    assert not (tmp_path / "sweeps").exists()


def test_a_taken_name_is_refused_with_what_to_do_from_python(tmp_path: Path) -> None:
    new_store(tmp_path, make_sweep("taken"))
    with pytest.raises(calsweep.UserError, match=r"calsweep\.resume\('taken', storage="):
        calsweep.run(dataset="digits", losses="focal", name="taken", storage=tmp_path)
    assert next(Composer(str(tmp_path)).free_names()) == "sweep-1"


def test_what_a_module_holds_is_named_by_it_and_the_rest_is_kept(tmp_path: Path) -> None:
    composer = Composer(str(tmp_path))
    assert composer.model(mlp) == "trainables.models.mlp:mlp"
    assert not (tmp_path / "code").exists()
    losses = composer.losses([Halved, calsweep.loss(Halved), "focal"])
    kept = composer.model(lambda num_classes: nn.Linear(5, num_classes))
    sweep = parse_sweep(
        {
            "name": "x",
            "dataset": composer.dataset((RNG.normal(size=(60, 5)), LABELS)),
            "model": kept,
            "losses": [losses[0], losses[2]],
        }
    )
    check_sweep(sweep)
    assert losses[1]["name"] == losses[0]
    assert sweep.model.name.startswith(f"kept:{tmp_path}/code/")


def test_ranges_choices_and_values_of_a_loss() -> None:
    section = calsweep.loss("mbls", margin=(1, 20), lam=[0.1, 0.2])
    assert section["space"]["margin"] == {"low": 1, "high": 20, "log": False}
    assert section["space"]["lam"] == {"choices": [0.1, 0.2]}
    section = calsweep.loss("focal_calibration", gamma=(1, 9, "log"), lam=0.5)
    assert section["space"] == {"gamma": {"low": 1, "high": 9, "log": True}}
    assert section["hyperparameters"] == {"lam": 0.5}
    with pytest.raises(calsweep.UserError, match=r"gamma = \(1,\) is not allowed; allowed: \(low"):
        calsweep.loss("focal", gamma=(1,))


def test_an_interruption_says_how_to_continue_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise calsweep.SweepInterruptedError("interrupted; `calsweep resume cut` continues it")

    monkeypatch.setattr("sweeps.service.running.run_sweep", interrupt)
    with pytest.raises(calsweep.SweepInterruptedError, match=r"; calsweep\.resume\('cut', storage"):
        calsweep.run(dataset="digits", losses=["focal"], name="cut", storage=tmp_path)
