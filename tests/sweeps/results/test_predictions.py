"""What pictures reckon with NumPy is what the metrics say."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sweeps.results import predictions
from trainables import metrics as M
from trainables import outcome
from trainables.storage import Folder


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(2, 6), st.booleans())
def test_bins_and_risks_are_those_of_the_metrics(
    seed: int, samples: int, classes: int, ties: bool
) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(samples, classes, generator=draw, dtype=torch.float64)
    logits = logits.round() if ties else logits
    labels = torch.randint(classes, (samples,), generator=draw)
    probs = logits.softmax(dim=1)
    own = predictions.probabilities(logits)
    assert np.allclose(own, probs, rtol=1e-12, atol=0)
    expected, bins = M.reliability_bins(probs, labels), predictions.reliability_bins(own, labels)
    assert bins.count.tolist() == expected.count.tolist()
    for name in ("confidence", "accuracy"):
        assert np.allclose(getattr(bins, name), getattr(expected, name), equal_nan=True)
    error = M.expected_calibration_error(probs, labels)
    assert bins.calibration_error == pytest.approx(error, abs=1e-12)
    # Confidences that are alike but for rounding would be in another order.
    risks = predictions.risk_coverage(probs, labels)
    assert np.allclose(risks, M.risk_coverage(probs, labels), atol=1e-12)


def test_confidences_of_0_and_1_are_in_the_bins_at_the_ends() -> None:
    bins = predictions.reliability_bins([[1.0, 0.0], [0.5, 0.5]], [0, 1])
    assert bins.count[14] == 1
    assert bins.count[7] == 1
    assert bins.calibration_error == pytest.approx(0.25)


def test_predictions_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder, draw = Folder(str(tmp_path)), torch.Generator().manual_seed(0)
    logits, labels = torch.randn(7, 3, generator=draw), torch.tensor([0, 1, 2, 2, 1, 0, 0])
    outcome.write_predictions(folder, "test", (logits, labels))
    read, told = predictions.read_predictions(folder.read("predictions_test.parquet"))
    assert np.array_equal(read, logits.double())
    assert np.array_equal(told, labels)


@pytest.mark.parametrize(
    ("damage", "told"), [("null", "null"), ("nan", "not numbers"), ("cut", "Parquet")]
)
def test_damaged_predictions_are_refused(damage: str, told: str) -> None:
    values = [0.0, float("nan") if damage == "nan" else 1.0] * 2
    labels = pa.array([0, None if damage == "null" else 1], pa.int64())
    logits = pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), 2)
    buffer = io.BytesIO()
    pq.write_table(pa.table({"label": labels, "logits": logits}), buffer)
    data = buffer.getvalue()[: 40 if damage == "cut" else None]
    with pytest.raises(ValueError, match=told):
        predictions.read_predictions(data)
