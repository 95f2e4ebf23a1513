"""Tests of all datasets."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainables import data
from trainables.data import (
    Dataset,
    Split,
    TableRows,
    available_datasets,
    check_dataset_options,
    dataset_loader,
    dataset_options,
    load_dataset,
)
from trainables.plugins.components import REQUIRED

Case = Callable[[str], dict[str, Any]]

each_dataset = pytest.mark.parametrize("name", available_datasets())


@each_dataset
def test_splits_fit_and_do_not_overlap(name: str, dataset_case: Case) -> None:
    dataset = load_dataset(name, seed=0, **dataset_case(name))
    assert dataset.name == name
    for split in (dataset.train, dataset.validation, dataset.test):
        dataset.samples.check(split.inputs)
        dataset.task.check(split.labels, dataset.samples)
        occurring = np.unique(dataset.task.occurring(split.labels))
        np.testing.assert_array_equal(occurring, np.arange(dataset.num_classes))
    seen = [image.tobytes() for image in dataset.train.inputs]
    assert not set(seen) & {image.tobytes() for image in dataset.validation.inputs}


def as_read(dataset: Dataset, split: Split) -> np.ndarray:
    """Inputs of a split without standardisation, which depends on the training part."""
    if not isinstance(dataset.samples, TableRows):
        return split.inputs
    return np.round(split.inputs * dataset.samples.std + dataset.samples.mean, 3)


@each_dataset
def test_the_seed_changes_only_the_validation_split(name: str, dataset_case: Case) -> None:
    options = dataset_case(name)
    first, again, other = (load_dataset(name, seed=seed, **options) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.train.inputs, again.train.inputs)
    np.testing.assert_array_equal(first.validation.labels, again.validation.labels)
    assert not np.array_equal(as_read(first, first.validation), as_read(other, other.validation))
    np.testing.assert_array_equal(as_read(first, first.test), as_read(other, other.test))
    np.testing.assert_array_equal(first.test.labels, other.test.labels)


@each_dataset
def test_train_samples_thins_training_only(name: str, dataset_case: Case) -> None:
    options = dataset_case(name)
    whole = load_dataset(name, seed=0, **options)
    size = len(whole.train) - 7
    thinned = load_dataset(name, seed=0, **options, train_samples=size)
    assert len(thinned.train) == size
    np.testing.assert_array_equal(
        as_read(thinned, thinned.validation), as_read(whole, whole.validation)
    )
    kept = {row.tobytes() for row in as_read(whole, whole.train)}
    assert all(row.tobytes() in kept for row in as_read(thinned, thinned.train))


WRONG: dict[str, tuple[Any, ...]] = {
    "validation": (0, 1.0, float("nan")),
    "train_samples": (0, 0.5),
    "test_size": (0, 1.0),
    "imbalance": (0, 1.5),
    "image_size": (0, 7.5),
    "on_bad_sample": ("drop",),
    "storage": ("disk",),
    "cache": (3,),
}
"""Values that no loader takes, by shared option."""


@each_dataset
def test_shared_options_are_checked_without_loading(name: str) -> None:
    required = {key: "x" for key, value in dataset_options(name).items() if value is REQUIRED}
    check_dataset_options(name, **required)
    assert {"validation", "train_samples"} <= dataset_options(name).keys()
    for option in WRONG.keys() & dataset_options(name).keys():
        for value in WRONG[option]:
            with pytest.raises(ValueError, match=rf"dataset '{name}': {option}={value!r}: expect"):
                check_dataset_options(name, **required, **{option: value})


def that_take(option: str, *without: str) -> pytest.MarkDecorator:
    names = [name for name in available_datasets() if option in dataset_options(name)]
    return pytest.mark.parametrize("name", [name for name in names if name not in without])


@that_take("test_size")
def test_a_test_split_is_held_out_by_number_or_share(name: str, dataset_case: Case) -> None:
    options = {key: value for key, value in dataset_case(name).items() if key != "test"}
    whole = load_dataset(name, seed=0, **options, test_size=10)
    count = sum(len(split) for split in (whole.train, whole.validation, whole.test))
    assert len(whole.test) == 10
    share = load_dataset(name, seed=0, **options, test_size=0.25)
    assert len(share.test) == pytest.approx(count / 4, abs=0.5)
    classes = [np.bincount(split.labels) for split in (share.train, share.test)]
    np.testing.assert_allclose(classes[1] / sum(classes[1]), classes[0] / sum(classes[0]), atol=0.1)


@that_take("image_size", "csv", "jsonl", "arrow")  # tables
def test_images_are_resized(name: str, dataset_case: Case) -> None:
    dataset = load_dataset(name, seed=0, **dataset_case(name) | {"image_size": 12})
    assert dataset.input_shape[1:] == (12, 12)


@that_take("imbalance", "cifar100")  # the case has too few samples of a class
def test_a_long_tail_is_of_training_and_validation(name: str, dataset_case: Case) -> None:
    options = dataset_case(name) | {"validation": 10}
    balanced, tailed = (load_dataset(name, seed=0, imbalance=m, **options) for m in (1.0, 0.5))
    before, after = (
        np.bincount(np.concatenate([dataset.train.labels, dataset.validation.labels]))
        for dataset in (balanced, tailed)
    )
    assert after[0] == before.max() or name == "imagenet"  # its classes were not balanced before
    assert after[-1] == before.max() // 2
    np.testing.assert_array_equal(tailed.test.labels, balanced.test.labels)


@each_dataset
def test_every_loader_says_what_it_is_and_what_its_options_mean(name: str) -> None:
    loader = dataset_loader(name)
    own = getattr(loader, "func", loader).__doc__ or ""  # one function may load several formats
    text = own + (data.__doc__ or "")  # the options that several loaders share
    for option in dataset_options(name):
        assert f"{option}: " in text


def test_required_options_are_asked_for() -> None:
    assert dataset_options("cifar10")["root"] is REQUIRED
    with pytest.raises(ValueError, match="'cifar10': option 'root' is required"):
        load_dataset("cifar10", seed=0)


def test_unknown_dataset() -> None:
    with pytest.raises(ValueError, match=r"unknown dataset 'cifar' \(did you mean 'cifar10"):
        load_dataset("cifar", seed=0)


@pytest.mark.parametrize("seed", [-1, float("nan")])
def test_seed_must_be_a_natural_number(seed: int) -> None:
    with pytest.raises(ValueError, match=f"seed={seed} must be at least 0"):
        load_dataset("digits", seed=seed)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_data.py").write_text(
        "from trainables.data import load_dataset\n"
        "def half(*, seed: int, share: float = 0.5):\n"
        "    return load_dataset('digits', seed=seed, validation=share)\n"
        "import numpy as np\n"
        "def arrays(*, seed: int):\n"
        "    return np.arange(150.0).reshape(50, 3), np.arange(50) % 2\n"
        "def pairs(*, seed: int):\n"
        "    x, y = arrays(seed=seed)\n"
        "    return (x, y == 1), (x, y == 1)\n"
        "def nothing(*, seed: int):\n"
        "    return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "own_data"


def test_own_loader(own_module: str) -> None:
    name = f"{own_module}:half"
    assert dataset_options(name) == {"share": 0.5}
    assert len(load_dataset(name, seed=0, share=0.5).validation) == 719
    with pytest.raises(ValueError, match="share='x': expected a number"):
        check_dataset_options(name, share="x")


def test_own_loader_may_return_arrays(own_module: str) -> None:
    held_out = load_dataset(f"{own_module}:arrays", seed=0)
    assert (len(held_out.train), len(held_out.validation), len(held_out.test)) == (36, 4, 10)
    assert held_out.input_shape == (3,)
    given = load_dataset(f"{own_module}:pairs", seed=0)
    assert (len(given.train), len(given.test)) == (45, 50)
    assert given.classes == ("false", "true")


def test_own_loader_must_return_a_dataset(own_module: str) -> None:
    with pytest.raises(
        TypeError, match="'own_data:nothing' returned a NoneType that is not a Dataset, nor"
    ):
        load_dataset(f"{own_module}:nothing", seed=0)


def test_neither_torch_nor_sklearn_is_imported_for_digits() -> None:
    code = (
        "import sys; from trainables.data import load_dataset; load_dataset('digits', seed=0);"
        "print([name for name in ('torch', 'torchvision', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
