"""The most confident errors of the recommended network in the report."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sweeps.service.reading.mistakes import keep_mistakes, load_mistakes
from sweeps.service.reading.writing import write_report
from sweeps.store.sweep_store import SweepStore
from tests.builders import baseline, make_sweep, new_store, trial, write_predictions
from trainables.contract.config import ScalingWay
from trainables.data import load_dataset
from trainables.data.core.base import Dataset
from trainables.data.kinds.arrays import Arrays, Images
from trainables.data.kinds.tokens import Tokens

SWEEP = make_sweep("seen")
RECORDS = [baseline(val_ece=0.5), trial(1, val_ece=0.02)]


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits", seed=0)


@pytest.fixture
def store(tmp_path: Path, digits: Dataset) -> SweepStore:
    """The recommended network takes the test samples 3 and 5 for others, 5 most confidently."""
    labels = torch.from_numpy(digits.test.labels.copy())
    logits = 2.0 * torch.nn.functional.one_hot(labels, 10).float()
    for row, sure in ((3, 5.0), (5, 9.0)):
        logits[row, (labels[row] + 1) % 10] = sure
    store = new_store(tmp_path / "storage", SWEEP, RECORDS)
    for split in ("validation", "test"):
        write_predictions(store.trial_folder(0), split, (logits, labels))
    return store


def test_the_report_shows_them(store: SweepStore, digits: Dataset, tmp_path: Path) -> None:
    keep_mistakes(store, RECORDS[0], digits, ScalingWay("temperature"))
    kept = load_mistakes(store)
    assert list(kept) == [5, 3]
    page = Path(write_report("seen", str(tmp_path / "storage"), str(tmp_path / "page.html")))
    for row, image in kept.items():
        content = base64.b64decode(image.removeprefix("data:image/png;base64,"))
        pixels = np.array(Image.open(io.BytesIO(content)))
        np.testing.assert_array_equal(pixels, digits.test.inputs[row, 0])
        assert f'<img src="{image}" alt="sample {row} of the test split">' in page.read_text()


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": 1}', b"\xff"])
def test_what_is_damaged_or_missing_is_done_without(store: SweepStore, content: bytes) -> None:
    assert load_mistakes(store) == {}
    store.folder.write("mistakes.json", content)
    assert load_mistakes(store) == {}


def test_damaged_predictions_end_no_sweep(
    store: SweepStore, digits: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    store.trial_folder(0).write("predictions_test.parquet", b"PAR1 cut")
    keep_mistakes(store, RECORDS[0], digits, ScalingWay("temperature"))
    assert "the worst mistakes are not kept for the report" in caplog.text
    assert load_mistakes(store) == {}


def test_texts_are_shown_by_their_words_and_numbers_not_at_all() -> None:
    words = Tokens((60,), ("the", "quick", "fox"))
    (row,) = words.encode(np.array(["The quick brown fox"]))
    assert words.shown(row) == "the quick … fox"
    (long,) = words.encode(np.array(["fox " * 50]))
    assert words.shown(long) == " ".join(["fox"] * 40 + ["…"])
    assert Arrays.unscaled((4,)).shown(np.zeros(4, np.float32)) is None
    two_channels = np.zeros((2, 8, 8), np.uint8)
    assert Images((2, 8, 8), (0.5,) * 2, (1.0,) * 2).shown(two_channels) is None
    colours = np.arange(3 * 8 * 8, dtype=np.uint8).reshape(3, 8, 8)
    shown = Images((3, 8, 8), (0.5,) * 3, (1.0,) * 3).shown(colours)
    assert shown is not None
    content = base64.b64decode(shown.partition(",")[2])
    pixels = np.array(Image.open(io.BytesIO(content)))
    np.testing.assert_array_equal(pixels.transpose(2, 0, 1), colours)
