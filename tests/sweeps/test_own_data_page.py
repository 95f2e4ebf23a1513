"""Runs the examples in docs/own_data.md like a reader of the page."""

import re
from pathlib import Path

import pytest
import torch

from sweeps.errors import UserError
from sweeps.planning.checks import check_sweep
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.sweep_file.loading import load_sweep
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import make_model
from trainables.plugins import components

PAGE = Path(__file__).parents[2] / "docs/own_data.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page: blocks that begin with a file's name."""
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for name, content in pattern.findall(text):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_sweep_of_the_page_learns(folder: Path) -> None:
    sweep = load_sweep("waves.yaml", ["training.epochs=8"])
    check_sweep(sweep)
    data = load_data(sweep)
    assert (len(data.test), data.classes, data.input_shape) == (120, ("fast", "slow"), (1, 32))
    sweep = fit_to_data(sweep, data)
    torch.manual_seed(0)
    model = make_model(
        sweep.model.name,
        input_shape=data.input_shape,
        num_classes=2,
        samples=data.samples,
        **sweep.model.options,
    )
    config = sweep.training.config()
    trainer = Trainer(model, make_loss("focal", 2), data, config, 0, torch.device("cpu"))
    for _ in range(config.epochs):
        trainer.train_epoch()
    logits, labels = trainer.predict(data.test)
    assert (logits.argmax(1) == labels).float().mean() > 0.8


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("dataset.noise=loud", "dataset: dataset 'waves:waves': noise='loud': expected a number"),
        ("dataset.nois=1", r"unknown option 'nois' \(did you mean 'noise'\?\)"),
        ("model.width=wide", "model: model 'wavenet:wavenet': width='wide': expected an integer"),
    ],
)
def test_wrong_options_are_refused(folder: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_sweep(load_sweep("waves.yaml", [override]))


def test_what_the_page_says_of_models_and_data(folder: Path) -> None:
    sweep = load_sweep("waves.yaml", ["dataset=digits"])
    with pytest.raises(UserError, match="'wavenet:wavenet' takes samples of 2 axes, while the dat"):
        fit_to_data(sweep, load_data(sweep))
    waves = load_sweep("waves.yaml", ["model=default"])
    assert fit_to_data(waves, load_data(waves)).model.name == "mlp"


def test_the_groups_of_entry_points_are_those_of_the_page() -> None:
    from trainables import data, models
    from trainables.data import evaluation_sets

    groups = re.findall(r"calsweep\.(?:datasets|models|shift_sets)\b", PAGE.read_text("utf-8"))
    ours = [module.CATALOGUE for module in (data, models, evaluation_sets)]
    assert all(isinstance(each, components.Catalogue) for each in ours)
    assert set(groups) == {each.group for each in ours}
