"""Programs of tables with numbers only, categories only, and both; of texts; as ONNX."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from trainables.data.kinds.table import Columns, TableRows
from trainables.data.kinds.tokens import Tokens, WeightedWords
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
    return [members[0], CalibratedEnsemble(members, 1.2)]


def exported(
    numeric: list[str], categorical: list[str]
) -> list[CalibratedClassifier | CalibratedEnsemble]:
    """The same; an ensemble, which averages whatever the columns, only with both kinds of them."""
    each = classifiers(numeric, categorical)
    return each if numeric and categorical else each[:1]


@KINDS
def test_every_kind_of_table_is_exported(numeric: list[str], categorical: list[str]) -> None:
    for classifier in exported(numeric, categorical):
        rows = np.tile(classifier.encode(COLUMNS.table), (2, 1))
        classify = load_program(export_program(classifier, rows)).module()
        with torch.no_grad():
            samples = torch.from_numpy(rows)
            torch.testing.assert_close(classify(samples), classifier(samples))


@pytest.mark.slow
@KINDS
def test_every_kind_of_table_as_onnx(numeric: list[str], categorical: list[str]) -> None:
    for classifier in exported(numeric, categorical):
        rows = classifier.encode(COLUMNS.table)
        found = run_onnx(export_onnx(classifier, rows), rows)
        expected = classifier.predict_proba(COLUMNS.table)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_codes_that_no_level_has_count_as_missing() -> None:
    (classifier, _) = classifiers(["age"], ["city", "zip"])
    missing, *others = np.array([[0, 0, 1], [0, -1, 1], [0, 3, 1], [0, np.nan, 1]], np.float32)
    with torch.no_grad():
        expected, *found = classifier(torch.from_numpy(np.stack([missing, *others])))
    for each in found:
        torch.testing.assert_close(each, expected)


@pytest.mark.slow
def test_negative_codes_count_as_missing_in_onnx() -> None:
    (classifier, _) = classifiers(["age"], ["city", "zip"])
    rows = np.array([[0, 0, 1], [0, -1, 1]], np.float32)
    first, second = run_onnx(export_onnx(classifier, rows), rows)
    np.testing.assert_array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [("text_mlp", WeightedWords, {}), ("gpool_cnn", Tokens, {"max_tokens": 9})],
)
def test_texts_as_onnx_have_no_loop(name: str, kind: Any, options: dict[str, int]) -> None:
    import onnx

    texts = np.array(["good film", "a bad film", "another", "unknown"], dtype=object)
    samples = kind.measured(texts[:2], max_words=9, **{"max_tokens": 9, **options})
    network = make_model(name, input_shape=samples.shape, num_classes=2, samples=samples, width=4)
    classifier = CalibratedClassifier(network, samples, 1.5, ("no", "yes"))
    rows = classifier.encode(texts)
    data = export_onnx(classifier, rows)
    np.testing.assert_allclose(run_onnx(data, rows), classifier.predict_proba(texts), atol=1e-6)
    assert run_onnx(data, rows[:0]).shape == (0, 2)
    used = {node.op_type for node in onnx.load_from_string(data).graph.node}
    assert not used & {"Loop", "Scan", "If"}, used


def test_no_samples_have_no_probabilities() -> None:
    (classifier, _) = classifiers(["age"], ["city", "zip"])
    rows = classifier.encode(COLUMNS.table)
    classify = load_program(export_program(classifier, rows)).module()
    assert classify(torch.from_numpy(rows[:0])).shape == (0, 2)
