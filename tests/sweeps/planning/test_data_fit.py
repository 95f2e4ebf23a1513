"""Checks of a sweep after its data are loaded."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import UserError
from sweeps.planning.checks import check_sweep
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.gpu_share import _with_precision
from sweeps.planning.preview import plan_facts
from sweeps.search.plan import Plan
from sweeps.sweep_file.loading import dump_sweep, read_resolved, read_sweep
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep
from trainables.data import Dataset, load_dataset


def table(folder: Path) -> Dataset:
    lines = [f"{index},{'pq'[index % 2]},{index % 2}" for index in range(40)]
    (folder / "a.csv").write_text("\n".join(["x,kind,label", *lines]))
    return load_dataset("csv", seed=0, train=str(folder / "a.csv"))


def without_model(**sections: Any) -> SweepFile:
    content = make_sweep(**sections).model_dump(exclude={"model"})
    return SweepFile.model_validate(content)


def test_a_sweep_without_model_gets_the_default_one_of_its_data(tmp_path: Path) -> None:
    sweep = without_model(training={"epochs": 3})
    check_sweep(sweep)
    assert plan_facts(Plan(sweep))["model"] == "the default one of such data"
    digits = load_dataset("digits", seed=0)
    assert fit_to_data(sweep, digits).model.name == "small_cnn"
    fitted = fit_to_data(sweep, table(tmp_path))
    assert fitted.model.name == "table_mlp"
    unchanged = {"model": sweep.model, "training": sweep.training}
    assert fitted.model_copy(update=unchanged) == sweep


def test_training_defaults_depend_on_the_model(tmp_path: Path) -> None:
    data = table(tmp_path)
    fitted = fit_to_data(without_model(training={"lr": 0.002}), data).training
    assert (fitted.optimizer, fitted.lr, fitted.epochs) == ("adam", 0.002, 30)
    assert fitted.batch_size == 16  # for 29 samples; the default of 128 would be one step per epoch
    given = without_model(training={"optimizer": "sgd", "batch_size": 24})
    fitted = fit_to_data(given, data).training
    assert (fitted.optimizer, fitted.lr, fitted.batch_size) == ("sgd", 0.1, 24)
    adam = make_sweep(model="resnet18_cifar", training={"optimizer": "adam"})
    fitted = fit_to_data(adam, load_dataset("digits", seed=0)).training
    assert (fitted.lr, fitted.epochs) == (0.001, 200)


def test_the_stored_file_is_complete_and_the_recipe_is_settled_once(tmp_path: Path) -> None:
    data = table(tmp_path)
    sweep = without_model(training={"lr": 0.002})
    assert sweep.model_dump()["training"] == {"lr": 0.002}
    assert read_sweep(dump_sweep(sweep), "a") == sweep
    fitted = fit_to_data(sweep, data)
    stored = read_resolved(dump_sweep(fitted), "a")
    assert stored == fitted
    assert fit_to_data(stored, data) == fitted
    recipe = {**asdict(fitted.training.config()), "patience": 10, "longest": 120}
    assert fitted.training.model_dump() == recipe


def test_a_budget_of_epochs_has_room_for_the_usual_ones(tmp_path: Path) -> None:
    data, search = table(tmp_path), {"max_epochs": 20}
    with pytest.raises(
        UserError, match=r"max_epochs = 20 is not allowed with training.epochs = 30"
    ):
        fit_to_data(without_model(search=search), data)
    fit_to_data(without_model(search=search, training={"epochs": 20}), data)


def test_options_may_be_those_of_the_default_model(tmp_path: Path) -> None:
    data = table(tmp_path)
    assert fit_to_data(make_sweep(model={"width": 7}), data).model.options == {"width": 7}
    with pytest.raises(UserError, match=r"model: model 'table_mlp': unknown option 'colour'"):
        fit_to_data(make_sweep(model={"colour": 7}), data)


def test_a_named_model_stays(tmp_path: Path) -> None:
    sweep = make_sweep(model={"name": "mlp", "depth": 1})
    fitted = fit_to_data(sweep, load_dataset("digits", seed=0))
    assert fitted.model_copy(update={"training": sweep.training}) == sweep


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({}, "model: model 'small_cnn' takes samples of 3 axes, while the data are table rows of"),
        (
            {"model": {"width": 9}, "training": {"augmentation": "crop"}},
            r"training.augmentation = 'crop' is not for table rows .*; allowed: none",
        ),
        (
            {"model": {"width": 9}, "losses": ["mixup"]},
            "losses: mixup mixes samples, and there is nothing between two table rows",
        ),
        (
            {"training": {"augmentation": "crop_flip"}, "losses": ["mixup"]},
            r"(?s)model 'small_cnn'.*training.augmentation = .*mixup",
        ),
    ],
)
def test_mismatches_are_reported(tmp_path: Path, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fit_to_data(make_sweep(**sections), table(tmp_path))


def test_images_may_be_too_small_for_a_model() -> None:
    sweep = make_sweep(model={"name": "timm/vgg11"})
    with pytest.raises(UserError, match="model: model 'timm/vgg11' cannot be built for"):
        fit_to_data(sweep, load_dataset("digits", seed=0))


def test_a_metric_of_two_classes_needs_data_of_two(tmp_path: Path) -> None:
    sweep = without_model(search={"objective": "val_event_ece"})
    check_sweep(sweep)
    fit_to_data(sweep, table(tmp_path))
    with pytest.raises(UserError, match=r"objective = 'val_event_ece' needs data of two classes, "):
        fit_to_data(sweep, load_dataset("digits", seed=0))


def test_a_sweep_of_a_frozen_network_can_be_read_again() -> None:
    digits = load_dataset("digits", seed=0)
    sweep = make_sweep(model={"name": "small_cnn", "frozen": True, "head": "mlp"})
    fitted = fit_to_data(sweep, digits)
    fitted = _with_precision(fitted, "float32")
    assert fitted.training.batch_size == 128  # the recipe of heads is complete
    assert read_sweep(dump_sweep(fitted), "stored") == fitted
