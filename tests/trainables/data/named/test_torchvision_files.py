"""Datasets of torchvision: small files in the original formats, and the real Fashion-MNIST."""

import pickle
import struct
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

from tests.trainables.data.conftest import pixels
from trainables.data import load_dataset


def test_fashion_mnist_reads_pixels_and_labels(fashion_root: Path) -> None:
    dataset = load_dataset("fashion_mnist", root=str(fashion_root), validation=10, seed=0)
    raw = (fashion_root / "FashionMNIST/raw/t10k-images-idx3-ubyte").read_bytes()
    assert struct.unpack(">iiii", raw[:16]) == (2051, 20, 28, 28)
    assert dataset.test.inputs.tobytes() == raw[16:]
    np.testing.assert_array_equal(dataset.test.labels, np.arange(20) % 10)
    assert dataset.classes[0] == "T-shirt/top"


def test_cifar10_reads_pixels_and_labels(cifar_root: Path) -> None:
    dataset = load_dataset("cifar10", root=cifar_root, validation=20, seed=0)
    content = pickle.loads((cifar_root / "cifar-10-batches-py" / "test_batch").read_bytes())
    np.testing.assert_array_equal(dataset.test.inputs.reshape(20, -1), content["data"])
    assert len(dataset.train) == 21 + 22 + 23 + 24 + 25 - 20
    assert dataset.classes == tuple(f"ten_{index}" for index in range(10))
    assert dataset.samples.augmentation == "crop_flip"


def test_cifar100_takes_the_fine_labels(cifar_root: Path) -> None:
    dataset = load_dataset("cifar100", root=cifar_root, validation=100, seed=0)
    assert dataset.num_classes == 100
    assert dataset.classes[7] == "hundred_07"
    np.testing.assert_array_equal(np.bincount(dataset.validation.labels), np.ones(100))


def test_svhn_reads_pixels_and_labels(svhn_root: Path) -> None:
    dataset = load_dataset("svhn", root=svhn_root, validation=20, seed=0)
    expected = pixels(20, 32, 32, 3, seed=20).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(dataset.test.inputs, expected)
    np.testing.assert_array_equal(dataset.test.labels, np.arange(1, 21) % 10)  # 10 means 0
    assert dataset.samples.augmentation == "crop"  # digits must not be flipped


def test_stl10_reads_pixels_and_labels(stl10_root: Path) -> None:
    dataset = load_dataset("stl10", root=stl10_root, validation=20, seed=0)
    np.testing.assert_array_equal(dataset.test.inputs, pixels(20, 3, 96, 96, seed=20))
    np.testing.assert_array_equal(dataset.test.labels, np.arange(20) % 10)
    assert dataset.classes[3] == "thing 3"


def test_stl10_of_two_classes(stl10_root: Path) -> None:
    dataset = load_dataset("stl10", root=stl10_root, validation=20, seed=0, binary=True)
    assert dataset.classes[0] == "thing 0/thing 1/thing 2/thing 3/thing 4"
    np.testing.assert_array_equal(dataset.test.labels, np.arange(20) % 10 >= 5)


def test_mnist_is_read_from_its_own_folder(mnist_root: Path) -> None:
    dataset = load_dataset("mnist", root=mnist_root, validation=10, seed=0)
    assert dataset.classes[7] == "7 - seven"
    assert dataset.samples.augmentation == "crop"


def test_long_tailed_cifar(cifar_root: Path) -> None:
    options = {"root": cifar_root, "validation": 15, "imbalance": 0.2}
    dataset, other = (load_dataset("cifar10", seed=seed, **options) for seed in (0, 1))
    expected = [15, 12, 10, 8, 7, 6, 5, 4, 3, 3]  # 15 · 0.2^(k/9) samples of class k
    whole = np.concatenate([dataset.train.labels, dataset.validation.labels])
    np.testing.assert_array_equal(np.bincount(whole), expected)
    np.testing.assert_array_equal(np.bincount(dataset.test.labels), np.full(10, 2))
    seen = {row.tobytes() for part in (dataset.train, dataset.validation) for row in part.inputs}
    again = {row.tobytes() for part in (other.train, other.validation) for row in part.inputs}
    assert seen == again  # the seed affects the validation split, not the dataset


def test_cifar_holds_out_5000_by_default(cifar_root: Path) -> None:
    with pytest.raises(ValueError, match="validation=5000 holds out 5000 of 115"):
        load_dataset("cifar10", root=cifar_root, seed=0)


@pytest.mark.parametrize("name", ["fashion_mnist", "mnist", "cifar10", "cifar100", "svhn", "stl10"])
def test_missing_files_are_reported(name: str, tmp_path: Path) -> None:
    message = rf"dataset '{name}': {tmp_path}/\S+ does not exist; set root .*download: true"
    with pytest.raises(FileNotFoundError, match=message):
        load_dataset(name, root=tmp_path, seed=0)


def test_a_wrong_checksum_is_a_damaged_file(
    cifar_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchvision.datasets import CIFAR10

    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", "0" * 32]])
    with pytest.raises(ValueError, match=r"dataset 'cifar10': .* missing or damaged"):
        load_dataset("cifar10", root=cifar_root, validation=20, seed=0)


def test_a_missing_cifar_file_is_named_with_its_folder(cifar_root: Path) -> None:
    (cifar_root / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(ValueError, match="cifar-10-batches-py are missing or damaged"):
        load_dataset("cifar10", root=cifar_root, validation=20, seed=0)


@pytest.mark.parametrize("length", [0, 10, 500])
def test_a_truncated_fashion_mnist_file(fashion_root: Path, length: int) -> None:
    file = fashion_root / "FashionMNIST/raw/train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"dataset 'fashion_mnist': .* missing or damaged"):
        load_dataset("fashion_mnist", root=fashion_root, seed=0)


def test_a_download_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import CIFAR10

    def fail(self: CIFAR10) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr(CIFAR10, "download", fail)
    with pytest.raises(ConnectionError, match=r"'cifar10' cannot be downloaded .*no route to host"):
        load_dataset("cifar10", root=tmp_path, download=True, seed=0)


def test_download_fetches_before_reading(cifar_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import CIFAR10

    folder = cifar_root / "cifar-10-batches-py"
    elsewhere = folder.rename(cifar_root / "elsewhere")

    def download(self: CIFAR10) -> None:
        if elsewhere.exists():  # like torchvision, which does nothing if the files exist
            elsewhere.rename(folder)

    monkeypatch.setattr(CIFAR10, "download", download)
    dataset = load_dataset("cifar10", root=cifar_root, download=True, validation=20, seed=0)
    assert len(dataset.test) == 20


def test_real_fashion_mnist(shared_data: Path) -> None:
    dataset = load_dataset("fashion_mnist", root=shared_data, seed=0)
    assert [len(dataset.train), len(dataset.validation), len(dataset.test)] == [54000, 6000, 10000]
    np.testing.assert_array_equal(np.bincount(dataset.validation.labels), np.full(10, 600))
    # The usual constants for this dataset, as precise as they are quoted.
    assert dataset.samples.mean[0] == pytest.approx(0.2860, abs=5e-4)
    assert dataset.samples.std[0] == pytest.approx(0.3530, abs=5e-4)
