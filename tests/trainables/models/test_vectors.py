"""Inputs as vectors: one-hot categories, everything else flattened."""

import numpy as np
import pyarrow as pa
import torch

from trainables.data import Arrays, TableRows
from trainables.data.kinds.table import Columns
from trainables.models.vectors import Vectors


def test_categories_become_one_hot() -> None:
    trained = Columns(pa.table({"x": [1.0, None, 3.0], "a": ["p", "q", "r"], "b": [*"uuv"]}))
    samples = TableRows.measured(trained, numeric=["x"], categorical=["a", "b"])
    new = Columns(pa.table({"x": [None, 3.0], "a": ["q", "new"], "b": [None, "v"]}))
    layer = Vectors(samples)
    rows = samples.prepare(torch.from_numpy(np.asarray(samples.encode(new))))
    assert layer.size == 7
    assert layer(rows).tolist() == [[0, 1, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0, 1]]


def test_other_inputs_are_flattened() -> None:
    layer = Vectors(Arrays.unscaled((2, 3)))
    inputs = torch.arange(12.0).view(2, 2, 3)
    assert layer.size == 6
    torch.testing.assert_close(layer(inputs), inputs.flatten(1))
