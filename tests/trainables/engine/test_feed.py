"""Batches arrive complete and in order, for all ways to the device."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainables.data.conftest import encode
from trainables.data.core.bad_samples import BadSamples
from trainables.data.core.base import Split
from trainables.data.readers.streamed import EncodedImages, keep_images
from trainables.engine.feed import Batch, Feed


@pytest.fixture
def split() -> Split:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)
    return Split(images, draw.integers(0, 5, 50))


def rows(batches: int) -> list[np.ndarray]:
    return np.array_split(np.random.default_rng(1).permutation(50)[:40], batches)


def check(batches: list[Batch], wanted: list[np.ndarray], split: Split) -> None:
    assert len(batches) == len(wanted)
    for (inputs, labels, numbers), expected in zip(batches, wanted, strict=True):
        assert numbers.tolist() == expected.tolist()
        np.testing.assert_array_equal(inputs.cpu().numpy(), split.inputs[expected])
        np.testing.assert_array_equal(labels.cpu().numpy(), split.labels[expected])


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 7])
def test_rows_in_order(split: Split, batches: int) -> None:
    feed = Feed(split, torch.device("cpu"))
    check(list(feed.batches(rows(batches))), rows(batches), split)
    check(list(feed._read_ahead(rows(batches))), rows(batches), split)


def test_changing_a_batch_does_not_change_the_split(split: Split) -> None:
    before = split.inputs.copy()
    for inputs, labels, _ in Feed(split, torch.device("cpu")).batches(rows(2)):
        inputs.zero_()
        labels.zero_()
    np.testing.assert_array_equal(split.inputs, before)


def test_errors_in_the_thread_are_reported(split: Split) -> None:
    with pytest.raises(IndexError):
        list(Feed(split, torch.device("cpu"))._read_ahead([np.array([0]), np.array([99])]))


@pytest.fixture
def streamed(split: Split, tmp_path: Path) -> Split:
    """The same split, as a file of encoded images."""
    encoded = [encode(image.transpose(1, 2, 0)) for image in np.asarray(split.inputs)]
    bad = BadSamples(len(encoded), str)
    images = keep_images(tmp_path / "images.arrow", lambda: encoded, bad, None)
    bad.raise_first()
    return Split(images, split.labels)


@pytest.mark.parametrize("threads", [1, 2])
def test_streamed_rows_in_order(split: Split, streamed: Split, threads: int) -> None:
    """With one thread, the trial decodes; with several, processes decode."""
    torch.set_num_threads(threads)
    try:
        for batches in (1, 3):
            feed = Feed(streamed, torch.device("cpu"))
            check(list(feed.batches(rows(batches))), rows(batches), split)
    finally:
        torch.set_num_threads(1)


def test_errors_in_a_process_are_reported(streamed: Split) -> None:
    assert isinstance(streamed.inputs, EncodedImages)
    Path(streamed.inputs.path).rename(Path(streamed.inputs.path).with_name("moved"))
    with pytest.raises(ValueError, match="set the dataset's cache to a folder that all machines"):
        list(Feed(streamed, torch.device("cpu"))._decode_ahead([np.array([0])]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("resident", [0, 10**6])
def test_rows_in_order_on_a_gpu(split: Split, resident: int) -> None:
    feed = Feed(split, torch.device("cuda"), resident)
    found = list(feed.batches(rows(4)))
    assert all(part.device.type == "cuda" for batch in found for part in batch)
    check(found, rows(4), split)
