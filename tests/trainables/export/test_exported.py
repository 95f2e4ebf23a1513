"""Programs of tables with numbers only, categories only, and both."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from trainables.data.kinds.table import Columns, TableRows
from trainables.export.calibrated import CalibratedClassifier, CalibratedEnsemble
from trainables.export.exported import export_onnx, export_program, load_program, run_onnx
from trainables.models import make_model

COLUMNS = Columns(
    pa.table(
        {
            "age": [1.0, None, 3.0],
            "size": [2.0, 5.0, 4.0],
            "city": ["x", "y", None],
            "zip": [*"ppq"],
        }
    )
)


KINDS = pytest.mark.parametrize(
    ("numeric", "categorical"),
    [(["age", "size"], []), (["size"], []), ([], ["city", "zip"]), (["age"], ["city"])],
)


def classifiers(
    numeric: list[str], categorical: list[str]
) -> list[CalibratedClassifier | CalibratedEnsemble]:
    """A classifier, and an ensemble of two."""
    samples = TableRows.measured(COLUMNS, numeric=numeric, categorical=categorical)
    networks = [
        make_model("table_mlp", input_shape=samples.shape, num_classes=2, samples=samples, width=4)
        for _ in range(2)
    ]
    members = [CalibratedClassifier(each, samples, 1.5, ("no", "yes")) for each in networks]
    return [members[0], CalibratedEnsemble(members, [1, 2], 1.2)]


@KINDS
def test_every_kind_of_table_is_exported(numeric: list[str], categorical: list[str]) -> None:
    for classifier in classifiers(numeric, categorical):
        rows = np.tile(classifier.encode(COLUMNS.table), (2, 1))
        classify = load_program(export_program(classifier, rows)).module()
        with torch.no_grad():
            samples = torch.from_numpy(rows)
            torch.testing.assert_close(classify(samples), classifier(samples))


@pytest.mark.slow
@KINDS
def test_every_kind_of_table_as_onnx(numeric: list[str], categorical: list[str]) -> None:
    for classifier in classifiers(numeric, categorical):
        rows = classifier.encode(COLUMNS.table)
        found = run_onnx(export_onnx(load_program(export_program(classifier, rows))), rows)
        expected = classifier.predict_proba(COLUMNS.table)
        np.testing.assert_allclose(found, expected, atol=1e-6)
