"""Subsets of real datasets, small enough to record hundreds of trials in an hour."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from timm.models.resnet import BasicBlock, ResNet

from trainables.data.core.base import Dataset, Split
from trainables.data.named.torchvision_files import load_fashion_mnist
from trainables.data.readers.labelled_rows import load_parquet

TEST_SAMPLES = 3_000


def fashion_mnist(*, seed: int, root: str | os.PathLike[str]) -> Dataset:
    """Fashion-MNIST with 8,000 training, 2,500 validation and 3,000 test images.

    Args:
        seed: Seed of the subset.
        root: Folder that contains ``FashionMNIST/raw``.
    """
    whole = load_fashion_mnist(seed=seed, root=root, validation=2_500, train_samples=8_000)
    return _with_part_of_test(whole, seed)


def cifar10(*, seed: int, root: str, train_samples: int = 3_000) -> Dataset:
    """A subset of CIFAR-10 with 2,500 validation and 3,000 test images.

    Args:
        seed: Seed of the subset.
        root: Folder that contains ``train.parquet`` and ``test.parquet``, with the columns
            ``image`` and ``label``.
        train_samples: Number of training images.
    """
    whole = load_parquet(
        seed=seed,
        train=f"{root}/train.parquet",
        test=f"{root}/test.parquet",
        validation=2_500,
        train_samples=train_samples,
    )
    return _with_part_of_test(whole, seed)


def table(*, seed: int, path: str, text: str | None = None) -> Dataset:
    """At most 5,000 training rows of a table or of texts, without rows of equal features.

    A fifth of the rows, at most 1,000, are for validation; three tenths, at most 2,500, for tests.

    Args:
        seed: Seed of the split.
        path: A Parquet file with the column ``label``.
        text: Column of the texts.
    """
    rows = pd.read_parquet(path)
    rows = rows.drop_duplicates(subset=[text] if text else rows.columns.difference(["label"]))
    test, validation = min(2_500, 3 * len(rows) // 10), min(1_000, len(rows) // 5)
    with tempfile.TemporaryDirectory(prefix="calsweep-tabular-") as folder:
        whole = Path(folder) / "table.parquet"
        rows.to_parquet(whole, index=False)
        return load_parquet(
            seed=seed,
            train=str(whole),
            text=text,
            text_form="weighted_words" if text else None,
            test_size=test,
            validation=validation,
            train_samples=5_000 if len(rows) - test - validation > 5_000 else None,
        )


def small_resnet(*, input_shape: tuple[int, int, int], num_classes: int) -> ResNet:
    """A ResNet with four basic blocks of 16 to 128 channels.

    Args:
        input_shape: Channels, height and width of an image.
        num_classes: Number of logits.
    """
    return ResNet(
        BasicBlock,
        layers=(1, 1, 1, 1),
        channels=(16, 32, 64, 128),
        in_chans=input_shape[0],
        num_classes=num_classes,
        stem_width=16,
    )


def _with_part_of_test(dataset: Dataset, seed: int) -> Dataset:
    chosen = np.random.default_rng(seed).permutation(len(dataset.test))[:TEST_SAMPLES]
    test = Split(dataset.test.inputs[chosen], dataset.test.labels[chosen])
    return replace(dataset, test=test)
