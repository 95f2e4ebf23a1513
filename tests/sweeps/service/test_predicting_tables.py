"""Predictions of new rows of a table, as `calsweep predict` writes them."""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from sweeps.errors import UserError
from sweeps.service.delivery.predicting import Asked, predict
from tests.builders import exported
from trainables.data.kinds.table import Columns, TableRows
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.exported import export_program
from trainables.export.raw_samples import describe_samples
from trainables.models import make_model

TRAINED = Columns(pa.table({"size": [1.0, 2.0, 3.0], "version": ["3.10", "3.1", "main"]}))


@pytest.fixture(scope="module")
def classifier() -> CalibratedClassifier:
    samples = TableRows.measured(TRAINED, numeric=["size"], categorical=["version"])
    torch.manual_seed(0)
    network = make_model(
        "table_mlp", input_shape=samples.shape, num_classes=2, samples=samples, width=8
    )
    return CalibratedClassifier(network, samples, 0.1, ("bad", "good"))


@pytest.fixture(scope="module")
def model(classifier: CalibratedClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    rows = classifier.encode(TRAINED.table)
    (folder / "model.pt2").write_bytes(export_program(classifier, rows))
    samples = describe_samples(classifier.samples)
    about = exported(samples=samples, classes=("bad", "good"), raw="table")
    (folder / "model.json").write_bytes(about.write())
    return folder


def lines_of(model: Path, data: Path, **options: str) -> tuple[list[list[str]], tuple[str, ...]]:
    table = io.StringIO()
    _, notes = predict(str(model), str(data), table, Asked(**options))  # type: ignore[arg-type]
    return list(csv.reader(table.getvalue().splitlines())), notes


def test_a_row_does_not_depend_on_the_other_rows(
    model: Path, classifier: CalibratedClassifier, tmp_path: Path
) -> None:
    alone, beside = tmp_path / "alone.csv", tmp_path / "beside.csv"
    alone.write_text("id,size,version\n" + "007,1.5,3.10\n" * 6)
    beside.write_text(alone.read_text() + "008,1.5,main\n")
    (head, *lines), _ = lines_of(model, alone, id_column="id")
    assert head == ["id", "class", "confidence", "p(bad)", "p(good)"]
    assert [line[0] for line in lines] == ["007"] * 6
    assert lines_of(model, beside, id_column="id")[0][1:7] == lines
    frame = pa.table({"size": [1.5], "version": ["3.10"]})
    written = np.array(lines[0][3:], np.float32)
    np.testing.assert_array_equal(written, classifier.predict_proba(frame)[0])
    assert lines_of(model, alone)[0][1][0] == "0"


def test_unknown_levels_are_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size,version\n1,dev\n2,3.1\n")
    lines, (note,) = lines_of(model, tmp_path / "a.csv")
    assert len(lines) == 3
    assert note == (
        "1 of 2 rows have values of version that do not occur in training, and count as missing: "
        "'dev'"
    )


def test_columns_that_are_not_there(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size,version\n1,3.1\n")
    with pytest.raises(UserError, match=r"has no column 'name' \(option id\)"):
        lines_of(model, tmp_path / "a.csv", id_column="name")
    (tmp_path / "b.csv").write_text("size\n1\n")
    with pytest.raises(UserError, match="no column version; its columns: size"):
        lines_of(model, tmp_path / "b.csv")
