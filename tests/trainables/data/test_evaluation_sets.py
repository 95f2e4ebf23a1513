"""Shift sets and out-of-distribution sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainables.data.conftest import pixels
from trainables.data import Dataset, load_dataset
from trainables.data.evaluation_sets import load_evaluation_sets

PER_SEVERITY = 20


@pytest.fixture
def cifar10(cifar_root: Path) -> Dataset:
    return load_dataset("cifar10", root=cifar_root, validation=20, seed=0)


@pytest.fixture
def cifar10_c(cifar_root: Path) -> Path:
    """Two corruptions, with twenty images at each of five severities."""
    folder = cifar_root / "CIFAR-10-C"
    folder.mkdir()
    count = 5 * PER_SEVERITY
    for seed, name in enumerate(("fog", "gaussian_noise")):
        np.save(folder / f"{name}.npy", pixels(count, 32, 32, 3, seed=seed))
    np.save(folder / "labels.npy", (np.arange(count) % 10).astype(np.uint8))
    return cifar_root


def test_corrupted_images_may_count_as_out_of_distribution(
    cifar10: Dataset, cifar10_c: Path
) -> None:
    sets = load_evaluation_sets("ood", "cifar10_c", cifar10, root=cifar10_c, severities=(5,))
    assert {(each.kind, each.name, each.severity) for each in sets} == {("ood", "cifar10_c", 5)}


def test_cifar10_c_by_corruption_and_severity(cifar10: Dataset, cifar10_c: Path) -> None:
    sets = load_evaluation_sets("shift", "cifar10_c", cifar10, root=cifar10_c)
    assert [each.severity for each in sets] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    noise = load_evaluation_sets(
        "shift",
        "cifar10_c",
        cifar10,
        root=cifar10_c / "CIFAR-10-C",
        corruptions=["gaussian_noise"],
        severities=[5],
    )
    assert [(each.kind, each.name, each.severity) for each in noise] == [("shift", "cifar10_c", 5)]
    expected = pixels(100, 32, 32, 3, seed=1)[80:].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(noise[0].split.inputs, expected)
    np.testing.assert_array_equal(noise[0].split.labels, np.arange(80, 100) % 10)


def test_the_test_split_of_any_dataset_of_such_samples(cifar10: Dataset, svhn_root: Path) -> None:
    (ood,) = load_evaluation_sets("ood", "svhn", cifar10, root=svhn_root, validation=20)
    np.testing.assert_array_equal(
        ood.split.inputs, pixels(20, 32, 32, 3, seed=20).transpose(0, 3, 1, 2)
    )
    with pytest.raises(
        ValueError, match=r"'svhn' has the classes 0, 1, .* while those of 'cifar10'"
    ):
        load_evaluation_sets("shift", "svhn", cifar10, root=svhn_root, validation=20)
    (shift,) = load_evaluation_sets("shift", "cifar10", cifar10, root=svhn_root, validation=20)
    np.testing.assert_array_equal(shift.split.inputs, cifar10.test.inputs)


def test_other_samples_are_refused(cifar10: Dataset, fashion_root: Path, csv_table: Path) -> None:
    with pytest.raises(ValueError, match=r"ood set 'digits' does not fit 'cifar10': images of 3 x"):
        load_evaluation_sets("ood", "digits", cifar10)
    table = load_dataset("csv", seed=0, train=csv_table)
    with pytest.raises(ValueError, match=r"table rows .* are encoded by the training data"):
        load_evaluation_sets("ood", "csv", table, train=csv_table)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"corruptions": ["snow"]}, FileNotFoundError, "no corruption 'snow'.*: fog, gaussian_noi"),
        ({"severities": [0, 1]}, ValueError, r"severities=\[0, 1\] must be some of 1 to 5"),
        ({"severities": []}, ValueError, r"severities=\[\] must be some of 1 to 5"),
        ({"severity": 3}, ValueError, "shift set 'cifar10_c': unknown option 'severity'"),
        ({"root": "nowhere"}, FileNotFoundError, "nowhere/labels.npy does not exist; set root to"),
    ],
)
def test_options_are_checked(
    cifar10: Dataset,
    cifar10_c: Path,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        load_evaluation_sets("shift", "cifar10_c", cifar10, **{"root": cifar10_c, **options})


def test_damaged_files_are_named(cifar10: Dataset, cifar10_c: Path) -> None:
    np.save(cifar10_c / "CIFAR-10-C" / "fog.npy", pixels(30, 32, 32, 3))
    with pytest.raises(ValueError, match=r"fog.npy holds uint8 of shape \(30, 32, 32, 3\), while"):
        load_evaluation_sets("shift", "cifar10_c", cifar10, root=cifar10_c)
    (cifar10_c / "CIFAR-10-C" / "fog.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(ValueError, match=r"fog.npy is damaged"):
        load_evaluation_sets("shift", "cifar10_c", cifar10, root=cifar10_c)
