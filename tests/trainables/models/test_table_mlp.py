"""Skewed numbers of tables as normal scores."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import torch
from scipy.special import ndtri
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import QuantileTransformer
from torch.nn.functional import cross_entropy

from trainables.data.kinds.table import Columns, TableRows, normal_scores
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.exported import export_onnx, export_program, load_program, run_onnx
from trainables.models import Classifier, make_model
from trainables.models.table_mlp import NormalScores

MEASURED = load_breast_cancer().data
SKEWED = MEASURED[:, 10:20]  # standard errors
COLUMNS = ((SKEWED - SKEWED.mean(0)) / SKEWED.std(0)).T


@pytest.fixture(scope="module")
def samples() -> TableRows:
    """Skewed columns, also with missing values; others, as those of two numbers or none."""
    columns: dict[str, Any] = {f"x{place}": each for place, each in enumerate(SKEWED.T)}
    columns["other"] = MEASURED[:, 4]
    columns["missing"] = [None, *SKEWED[1:, 3]]
    columns["two"] = SKEWED[:, 0] > 1
    columns |= {"constant": np.full(len(SKEWED), 0.1), "empty": np.full(len(SKEWED), np.nan)}
    table = pa.table({name: pa.array(each).cast("float64") for name, each in columns.items()})
    return TableRows.measured(Columns(table), numeric=table.column_names, categorical=[])


def network(samples: TableRows, **options: Any) -> Classifier:
    torch.manual_seed(0)
    shape = samples.shape
    return make_model(
        "table_mlp", input_shape=shape, num_classes=2, samples=samples, width=8, **options
    )


def rows_of(samples: TableRows) -> npt.NDArray[np.float32]:
    """Rows around those of training and far outside, also with missing numbers."""
    random = np.random.default_rng(0)
    rows = random.normal(0, 3, (64, len(samples.numeric))).astype(np.float32)
    rows[::7] *= 1e6
    rows[::5, ::2] = np.nan
    return rows


def test_scores_are_those_of_the_quantile_transformer_of_scikit_learn() -> None:
    for column in (*COLUMNS, COLUMNS[0].round(1), np.repeat([-0.3, 1, 2, 5], [90, 5, 3, 2])):
        numbers, scores = np.array(normal_scores(column, most=10_000)).T
        rounded = np.sort(column.astype(np.float32).astype(np.float64))[:, None]
        fitted = QuantileTransformer(n_quantiles=len(column)).fit(rounded)
        fitted.quantiles_ = rounded  # its own differ by rounding, which splits ties
        ranks = fitted.transform(numbers[:, None])[:, 0]
        # Its ranks are from 0 to 1, also those of ties at both ends.
        expected = ndtri((ranks * (len(column) - 1) + 0.5) / len(column))
        np.testing.assert_allclose(scores[1:-1], expected[1:-1], rtol=0, atol=1e-6)
        assert set(numbers) == set(rounded[:, 0])


def test_few_points_are_close_to_all() -> None:
    for column in COLUMNS:
        every, few = (np.array(normal_scores(column, most)).T for most in (10_000, 32))
        assert len(few[0]) <= 32
        difference = np.interp(every[0], *few) - every[1]
        assert np.abs(difference).mean() < 0.02
        assert np.abs(difference).max() < 0.3


def test_maps_increase_between_the_ends_of_training_and_are_constant_outside() -> None:
    points = [normal_scores(column) for column in COLUMNS]
    maps = NormalScores(points)
    numbers = torch.linspace(-10, 50, 5000)[:, None].expand(-1, len(points))
    found = maps(numbers)
    assert (found.diff(dim=0) >= -1e-6).all()
    for place, each in enumerate(points):
        known = np.array(each)
        images = maps(torch.tensor(known[:, :1]).float().expand(-1, len(points)))[:, place]
        np.testing.assert_allclose(images, known[:, 1], atol=1e-5)
    ends = maps(torch.tensor([[-1e30], [1e30]]).expand(-1, len(points)))
    expected = [[each[0][1] for each in points], [each[-1][1] for each in points]]
    torch.testing.assert_close(ends, torch.tensor(expected))


def test_only_skewed_columns_have_scores(samples: TableRows) -> None:
    found = dict(zip(samples.numeric, samples.scores, strict=True))
    unchanged = ["x1", "x5", "x7", "other", "two", "constant", "empty"]
    assert [name for name, each in found.items() if not each] == unchanged
    numbers = torch.randn(9, len(found))
    mapped = NormalScores(samples.scores)(numbers)
    same = (mapped == numbers).all(0).tolist()
    assert same == [not each for each in samples.scores]


@pytest.mark.parametrize("options", [{}, {"numbers": "z_scores"}])
def test_gradients_are_finite(samples: TableRows, options: dict[str, Any]) -> None:
    model = network(samples, **options)
    rows = samples.normalise(torch.from_numpy(rows_of(samples))).requires_grad_()
    loss: Any = cross_entropy(model(rows), torch.arange(len(rows)) % 2)
    loss.backward()
    for each in (rows, *model.parameters()):
        assert each.grad is not None
        assert each.grad.isfinite().all()


def test_scores_are_of_single_precision_under_autocast(samples: TableRows) -> None:
    maps = NormalScores(samples.scores)
    rows = torch.from_numpy(rows_of(samples)).nan_to_num()
    expected = maps.double()(rows.double())
    with torch.autocast("cpu", torch.bfloat16):
        found = maps.float()(rows)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


def test_a_program_agrees_with_the_network(samples: TableRows) -> None:
    classifier = CalibratedClassifier(network(samples), samples, 1.5, ("no", "yes"))
    rows = rows_of(samples)
    program = load_program(export_program(classifier, rows)).module()
    with torch.no_grad():
        expected = classifier(torch.from_numpy(rows))
        torch.testing.assert_close(program(torch.from_numpy(rows)), expected)


@pytest.mark.slow  # and not with torch 2.9, which cannot export the embeddings of numbers
def test_onnx_agrees_with_the_network(samples: TableRows) -> None:
    classifier = CalibratedClassifier(network(samples), samples, 1.5, ("no", "yes"))
    rows = rows_of(samples)
    with torch.no_grad():
        expected = classifier(torch.from_numpy(rows))
    np.testing.assert_allclose(run_onnx(export_onnx(classifier, rows), rows), expected, atol=1e-5)


def test_numbers_may_be_standardised_only(samples: TableRows) -> None:
    rows = samples.normalise(torch.from_numpy(rows_of(samples)))
    plain = network(samples, numbers="z_scores").eval()
    assert torch.equal(plain(rows), network(replace(samples, scores=())).eval()(rows))
    model = network(samples).eval()
    assert not torch.allclose(model(rows), plain(rows))
    # A checkpoint without scores is of a network that reads standardised numbers.
    model.load_state_dict(plain.state_dict())
    assert torch.equal(model(rows), plain(rows))
