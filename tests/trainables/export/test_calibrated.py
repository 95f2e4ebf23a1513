"""A network with its temperature, as exported."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from trainables.data import Arrays, TableRows
from trainables.data.kinds.table import Columns
from trainables.export.calibrated import CalibratedClassifier


def test_read_only_samples_are_classified_without_a_warning() -> None:
    rows = np.ones((2, 3), np.float32)
    rows.flags.writeable = False  # like those that pandas 3 returns
    classifier = CalibratedClassifier(
        torch.nn.Identity(), Arrays.unscaled((3,)), 1.0, ("a", "b", "c")
    )
    assert np.allclose(classifier.predict_proba(rows), 1 / 3)
    with pytest.raises(ValueError, match="the array has masked values, which are missing; leave"):
        classifier.predict_proba(np.ma.array(rows, mask=np.eye(2, 3)))


def test_data_frames_are_checked_as_in_training() -> None:
    trained = Columns(pa.table({"x": [1.0, 3.0], "code": ["7", "True"]}))
    samples = TableRows.measured(trained, numeric=["x"], categorical=["code"])
    classifier = CalibratedClassifier(torch.nn.Identity(), samples, 1.0, ("a", "b"))
    rows = classifier.encode(pd.DataFrame({"code": [7, 7], "x": [True, False]}))
    assert rows.tolist() == [[-1, 1], [-2, 1]]
    with pytest.warns(UserWarning, match="1 of 2 rows have values of code .*: '8'"):
        classifier.encode(pd.DataFrame({"code": [7, 8], "x": [1, 3]}))
    with pytest.raises(ValueError, match=r"row 1 \(from 0\): x is '1,5', not a number"):
        classifier.encode(pd.DataFrame({"code": ["7", "7"], "x": ["1.5", "1,5"]}))
    with pytest.raises(ValueError, match="no column 'x'; the columns: code"):
        classifier.encode(pd.DataFrame({"code": ["7"]}))
