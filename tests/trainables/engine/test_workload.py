"""Measured workloads of models, compared with manual counts."""

from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_breast_cancer

from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.engine.workload import busy_share, device_memory, measure, operations_of_layers


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0)


def test_a_small_net_by_hand(digits: Dataset) -> None:
    found = measure("small_cnn", {"width": 4}, digits)
    # 8x8 images with one channel, two stages of 4 and 8 channels, 32 features, 10 classes.
    weights = 4 * 9 + 2 * 4 + 8 * 4 * 9 + 2 * 8 + 10 * 32 + 10
    assert found.parameters == 4 * weights
    assert found.operations == 2 * (64 * 4 * 9 + 16 * 8 * 4 * 9 + 10 * 32)
    assert operations_of_layers("small_cnn", {"width": 4}, digits) == found.operations
    assert found.largest == 4 * 4 * 64
    assert found.saved >= 4 * (64 + 3 * 4 * 64 + 4 * 16)  # inputs of convolution, norm and pool
    assert (
        found.data == len(digits.train) * 72 + len(digits.validation) * 72 + len(digits.test) * 72
    )


def test_a_net_on_a_table_by_hand(tmp_path: Path) -> None:
    load_breast_cancer(as_frame=True).frame.to_csv(tmp_path / "cancer.csv", index=False)
    table = load_dataset("csv", seed=0, train=tmp_path / "cancer.csv", label="target")
    found = measure("table_mlp", {"width": 8, "vector_size": 4}, table)
    # 30 numbers, each with 48 frequencies (sine, cosine) made 4 numbers; two layers; a head.
    assert found.operations == 2 * (30 * 96 * 4 + 30 * 4 * 8 + 8 * 8 + 8 * 2)
    layers = operations_of_layers("table_mlp", {"width": 8, "vector_size": 4}, table)
    assert layers == 2 * (30 * 4 * 8 + 8 * 8 + 8 * 2)  # without the products per column


def test_larger_nets_take_more_and_are_busier(digits: Dataset) -> None:
    small, large = measure("small_cnn", {}, digits), measure("resnet18_cifar", {}, digits)
    assert device_memory(large, 128, 1024) > device_memory(small, 128, 1024) > 700 * 2**20
    assert device_memory(large, 512, 512) > device_memory(large, 128, 512)
    assert 0 < busy_share(small, 128) < busy_share(large, 128) <= busy_share(large, 4096) == 1


def test_measuring_keeps_the_random_state(digits: Dataset) -> None:
    before = torch.get_rng_state()
    measure("small_cnn", {"dropout": 0.5}, digits)
    operations_of_layers("small_cnn", {"dropout": 0.5}, digits)
    assert torch.equal(before, torch.get_rng_state())
