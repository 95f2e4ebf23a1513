"""The outcome of a trial agrees with the metrics; the files of predictions."""

import io
import math
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from tests.builders import write_predictions
from trainables import metrics as M
from trainables.files.rows import Rows
from trainables.files.storage import Folder
from trainables.metrics import METRIC_NAMES, evaluate
from trainables.posthoc import TemperatureScaling, cross_fitted
from trainables.trials.outcome import Extent, summarise


def rows_of(predictions: tuple[Tensor, Tensor]) -> Rows:
    logits, labels = predictions
    return Rows(logits.numpy(), labels.numpy())


def overconfident(num_samples: int, seed: int, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    """Logits that are too large by ``scale``, and labels."""
    generator = torch.Generator().manual_seed(seed)
    honest = torch.randn(num_samples, 4, generator=generator)
    labels = torch.multinomial(torch.softmax(honest, dim=1), 1, generator=generator)[:, 0]
    return scale * honest, labels


def doubled_brier(probs: Tensor, labels: Tensor) -> float:
    return 2 * M.brier_score(probs.float(), labels)


def test_custom_metrics_are_raw_and_scaled_with_intervals_at_the_end() -> None:
    validation, test = overconfident(300, 0), overconfident(200, 1)
    both, own = (rows_of(validation), rows_of(test)), {"doubled": doubled_brier}
    at_rung = summarise(*both, extent=Extent(("ece",), own=own))
    last = summarise(*both, extent=Extent(intervals=("ece", "doubled"), own=own))
    for values in (at_rung, last):
        for split, (logits, labels) in (("val", validation), ("test", test)):
            doubled = 2 * M.brier_score(logits.softmax(dim=1), labels)
            assert values[f"{split}_doubled"] == pytest.approx(doubled, rel=1e-6)  # of float32
            assert values[f"{split}_doubled_scaled"] < values[f"{split}_doubled"]
    assert last["val_doubled_scaled_low"] < last["val_doubled_scaled"]
    assert last["val_doubled_scaled"] < last["val_doubled_scaled_high"]
    assert "val_doubled_low" not in at_rung


def test_every_metric_is_there_raw_and_scaled() -> None:
    validation, test = overconfident(2000, 0), overconfident(1000, 1)
    values = summarise(rows_of(validation), rows_of(test), extent=Extent(intervals=("ece", "nll")))
    for split, (logits, labels) in (("val", validation), ("test", test)):
        calibrated = (
            cross_fitted(logits, labels) if split == "val" else logits / values["temperature"]
        )
        raw, scaled = M.evaluate(logits, labels), M.evaluate(calibrated, labels)
        for name in METRIC_NAMES:
            assert values[f"{split}_{name}"] == raw[name]
            assert values[f"{split}_{name}_scaled"] == pytest.approx(scaled[name], abs=1e-4)
        for ending, each in (("", logits), ("_scaled", calibrated)):
            ends = [values[f"{split}_ece{ending}_{end}"] for end in ("low", "high")]
            reference = M.calibrated_reference("ece", torch.softmax(each, 1))
            assert values[f"{split}_ece{ending}_calibrated"] == pytest.approx(reference[0])
            assert values[f"{split}_ece{ending}_calibrated_high"] == pytest.approx(reference[2])
            assert f"{split}_nll{ending}_calibrated" not in values
            assert ends == pytest.approx(M.interval("ece", torch.softmax(each, 1), labels)[1:])
        assert values[f"{split}_ece_scaled"] < 0.5 * values[f"{split}_ece"]
        assert values[f"{split}_error_scaled"] == values[f"{split}_error"]
    part = values["test_nll"] - values["test_nll_scaled"]
    assert 0 < values["test_nll_calibration_low"] < part < values["test_nll_calibration_high"]
    assert values["temperature"] == pytest.approx(3.0, rel=0.1)
    assert values["temperature_at_bound"] == 0.0


def test_every_interval_comes_from_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def intervals(
        probs: Tensor, labels: Tensor, names: list[str], clusters: None
    ) -> dict[str, tuple[float, float, float]]:
        return dict.fromkeys(names, (0.0, 0.25, 0.75))

    monkeypatch.setattr(M, "intervals", intervals)
    values = summarise(
        rows_of(overconfident(80, 0)),
        rows_of(overconfident(80, 1)),
        extent=Extent(intervals=METRIC_NAMES),
    )
    values = {name: value for name, value in values.items() if "nll_calibration" not in name}
    low = {value for name, value in values.items() if name.endswith("_low")}
    high = {v for n, v in values.items() if n.endswith("_high") and "calibrated" not in n}
    assert (low, high) == ({0.25}, {0.75})
    assert sum(name.endswith("_low") for name in values) == 4 * len(METRIC_NAMES)


def test_calibration_errors_may_have_a_reference_without_an_interval() -> None:
    validation, test = overconfident(80, 0), overconfident(80, 1)
    values = summarise(
        rows_of(validation), rows_of(test), extent=Extent(None, ("nll",), ("smooth_ece", "ece"))
    )
    probs = torch.softmax(test[0].double(), dim=1)
    for name in ("smooth_ece", "ece"):
        mean, _, most = M.calibrated_reference(name, probs)
        assert values[f"test_{name}_calibrated"] == mean
        assert values[f"test_{name}_calibrated_high"] == most
        assert f"test_{name}_low" not in values
        assert f"val_{name}_scaled_calibrated" in values


def test_what_the_temperature_is_fitted_on_may_be_apart() -> None:
    validation, test, apart = (overconfident(500, seed) for seed in range(3))
    values = summarise(rows_of(validation), rows_of(test), apart)
    scaled = validation[0] / values["temperature"]
    assert values["val_nll_scaled"] == pytest.approx(M.evaluate(scaled, validation[1])["nll"])


def test_the_papers_temperature_is_that_of_the_lowest_ece() -> None:
    validation, test = overconfident(400, 0), overconfident(400, 1)
    values = summarise(rows_of(validation), rows_of(test), criterion="ece_grid")
    scaler = TemperatureScaling("ece_grid").fit(*validation)
    assert (
        values["temperature"]
        == scaler.temperature
        != summarise(rows_of(validation), rows_of(test))["temperature"]
    )
    scaled = evaluate(scaler(test[0]), test[1])
    assert values["test_ece_scaled"] == pytest.approx(scaled["ece"])
    assert values["test_nll_scaled"] == pytest.approx(scaled["nll"])  # reused for other metrics
    crossed = cross_fitted(*validation, partial(TemperatureScaling, "ece_grid"))
    found = evaluate(crossed, validation[1], ["ece"])["ece"]
    assert values["val_ece_scaled"] == pytest.approx(found)


def test_the_test_split_is_not_used_for_the_temperature() -> None:
    validation = overconfident(500, 0)
    one = summarise(rows_of(validation), rows_of(overconfident(500, 1, scale=0.1)))
    other = summarise(rows_of(validation), rows_of(overconfident(500, 2, scale=9.0)))
    assert one["temperature"] == other["temperature"]
    validation_names = [name for name in one if name.startswith("val_")]
    assert len(validation_names) == 2 * len(METRIC_NAMES)
    assert all(one[name] == other[name] for name in validation_names)


def test_what_is_undefined_is_left_out() -> None:
    logits = torch.tensor([[9.0, 0.0], [8.0, 0.0], [7.0, 0.0]])
    right = (logits, torch.zeros(3, dtype=torch.int64))  # no errors, so it is undefined
    values = summarise(rows_of(right), rows_of(right))
    assert "val_failure_auroc" not in values
    assert values["val_error"] == 0
    assert all(math.isfinite(value) for value in values.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_predictions_come_back_as_they_were(tmp_path: Path, dtype: torch.dtype) -> None:
    logits, labels = overconfident(7, 0)
    logits = logits.to(dtype)
    folder = Folder(str(tmp_path))
    write_predictions(folder, "test", (logits, labels))
    read, read_labels = Rows.read(folder, "test").tensors()
    assert read.dtype == torch.float32
    assert torch.equal(read, logits.float())
    assert torch.equal(read_labels, labels)


def test_predictions_are_a_file_that_others_can_read(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    write_predictions(folder, "validation", (torch.eye(3), torch.arange(3)))
    table = pq.read_table(io.BytesIO(folder.read("predictions_validation.parquet")))
    assert table.column_names == ["label", "logits"]
    assert table.to_pylist()[1] == {"label": 1, "logits": [0.0, 1.0, 0.0]}


@pytest.mark.parametrize(
    ("damage", "message"), [("null", "null"), ("nan", "not numbers"), ("cut", "Parquet")]
)
def test_damaged_predictions_are_refused(damage: str, message: str) -> None:
    values = [0.0, float("nan") if damage == "nan" else 1.0] * 2
    labels = pa.array([0, None if damage == "null" else 1], pa.int64())
    logits = pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), 2)
    buffer = io.BytesIO()
    pq.write_table(pa.table({"label": labels, "logits": logits}), buffer)
    data = buffer.getvalue()[: 40 if damage == "cut" else None]
    with pytest.raises(ValueError, match=message):
        Rows.decode(data).tensors()
