"""Odd rows of a table are accepted or refused alike, whichever way a classifier is used."""

import json
import warnings
from collections.abc import Callable
from datetime import date
from typing import Any, TypeAlias

import mlflow
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.scoring_server import invocations

from sweeps.tracking.registered_models import ModelToRegister, _save, _silenced
from trainables.data import Dataset, load_dataset
from trainables.data.kinds.encode import encode
from trainables.data.kinds.table import TableRows
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.description import Exported
from trainables.export.exported import export_onnx, export_program, run_onnx
from trainables.export.raw_samples import columns_of, describe_samples, encode_code, read_raw
from trainables.models import make_model

Probs: TypeAlias = npt.NDArray[Any]
Door: TypeAlias = Callable[[pd.DataFrame], Probs]

TRAINED = pd.DataFrame(
    {
        "size": [i % 7 for i in range(60)],
        "part": [None if i % 11 == 3 else i / 7 for i in range(60)],
        "member": [i % 4 == 0 for i in range(60)],
        "hue": [("red", "blue", None)[i % 3] for i in range(60)],
        "since": [f"20{10 + i % 9}-0{1 + i % 8}-1{i % 10}" for i in range(60)],
        "label": [i % 2 for i in range(60)],
    }
)
ROW = {"size": 3, "part": 0.5, "member": True, "hue": "red", "since": "2013-02-12"}
SAME: list[tuple[str, Any, Any]] = [
    ("size", "3", 3),
    ("size", " 3.0", 3),
    ("size", None, float("nan")),
    ("part", 1, 1.0),
    ("member", "True", True),
    ("member", "FALSE", False),
    ("member", 0, False),
    ("hue", "green", None),  # it does not occur in training
    ("since", None, None),
    ("since", "2013-2-12 09:30", "2013-02-12"),
    ("since", pd.Timestamp("2013-02-12 09:30"), "2013-02-12"),
    ("since", date(2013, 2, 12), "2013-02-12"),
]
REFUSED: list[tuple[str, Any]] = [
    ("size", "x"),
    ("size", "1,5"),
    ("size", np.inf),
    ("size", pd.Timestamp("2013-02-12")),
    ("member", "maybe"),
    ("since", "03.02.2026"),
    ("since", "02/03/2026"),
    ("since", "garbage"),
    ("since", 45000),
]


def frame_of(column: str, value: Any, others: int = 0) -> pd.DataFrame:
    """Usual rows, and one with this value in a column."""
    return pd.DataFrame([*[ROW] * others, {**ROW, column: value}])


def answered(door: Door, frame: pd.DataFrame) -> Probs | None:
    """Probabilities (N, K); None if the rows are refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown levels
            return np.asarray(door(frame), np.float64)
    except (ValueError, TypeError) as error:
        if len(str(error).splitlines()) > 2:  # such as those of Arrow
            raise
        return None


def served(model: mlflow.pyfunc.PyFuncModel, frame: pd.DataFrame) -> Probs:
    """The answer of the function that `mlflow models serve` calls."""
    split = {"columns": list(frame), "data": frame.to_numpy(dtype=object).tolist()}
    body = json.dumps({"dataframe_split": split}, default=str)
    try:
        reply = invocations(body, "application/json", model, model.metadata.get_input_schema())
    except MlflowException as error:
        if error.get_http_status_code() != 400:  # the server answers with it
            raise
        raise ValueError(error.message.rpartition("Error: ")[2]) from None
    return np.array(pd.DataFrame(json.loads(reply.response)["predictions"]))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("data") / "train.csv"
    TRAINED.to_csv(path, index=False)
    return load_dataset("csv", seed=0, train=str(path), dates=("since",))


@pytest.fixture(scope="module")
def classifier(data: Dataset) -> CalibratedClassifier:
    torch.manual_seed(0)
    network = make_model(
        "table_mlp", input_shape=data.samples.shape, num_classes=2, samples=data.samples, width=8
    )
    return CalibratedClassifier(network, data.samples, 0.1, ("0", "1"))


@pytest.fixture(scope="module")
def doors(
    classifier: CalibratedClassifier, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Door]:
    """The ways that need neither a server nor ONNX."""
    path, samples = tmp_path_factory.mktemp("rows") / "new.csv", classifier.samples
    described = json.loads(json.dumps(describe_samples(samples)))

    def predict(frame: pd.DataFrame) -> Probs:
        frame.to_csv(path, index=False)
        return probabilities(classifier, read_raw(samples, path)[0])

    return {
        "predict": predict,
        "model()": classifier.predict_proba,
        "encode.py": lambda frame: probabilities(classifier, encode(described, frame)),
    }


@pytest.fixture(scope="module")
def more_doors(
    data: Dataset, classifier: CalibratedClassifier, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Door]:
    """The other ways."""
    samples, rows = classifier.samples, data.train.rows(slice(9))
    assert isinstance(samples, TableRows)
    described = json.loads(json.dumps(describe_samples(samples)))
    model = ModelToRegister(
        "1",
        export_program(classifier, rows),
        Exported(
            label="cross_entropy",
            sweep="odd",
            dataset="csv",
            digest="",
            text_column=None,
            model="table_mlp",
            classes=("0", "1"),
            several=False,
            outputs=(2,),
            dtype="float32",
            shape=(5,),
            samples=described,
            raw="table",
            calsweep="0",
            recommended=True,
            why="",
            loss="cross_entropy",
            hyperparameters={},
            temperature=1.0,
            scaling={},
            prediction_sets={},
            verdict=None,
        ),
        encode_code(),
        (),
        tuple(columns_of(samples)),
        None,
        None,
        "",
    )
    parts, saved = (tmp_path_factory.mktemp("model") for _ in range(2))
    with _silenced():
        _save(model, parts, saved / "saved")
    loaded, onnx = mlflow.pyfunc.load_model(str(saved / "saved")), export_onnx(classifier, rows)
    return {
        "pyfunc": loaded.predict,
        "HTTP": lambda frame: served(loaded, frame),
        "ONNX": lambda frame: run_onnx(onnx, encode(described, frame)),
    }


def probabilities(classifier: CalibratedClassifier, rows: Probs) -> Probs:
    with torch.no_grad():
        found: Probs = classifier(torch.from_numpy(rows)).numpy()
    return found


def check_alike(doors: dict[str, Door], usual_door: Door) -> None:
    """Each odd row, alone and in a batch, has the answer of the usual one, or none at any door."""
    for others in (0, 3):
        for column, odd, usual in SAME:
            expected = answered(usual_door, frame_of(column, usual, others))
            assert expected is not None
            for name, door in doors.items():
                found = answered(door, frame_of(column, odd, others))
                assert found is not None, (name, column, odd)
                message = f"{name} {column} {odd}"
                np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=message)
        for column, odd in REFUSED:
            for name, door in doors.items():
                assert answered(door, frame_of(column, odd, others)) is None, (name, column, odd)
    for name, door in doors.items():
        assert answered(door, frame_of("size", 3)[:0]) is None, name


def test_odd_rows_get_the_same_answer_at_every_door(doors: dict[str, Door]) -> None:
    check_alike(doors, doors["model()"])


@pytest.mark.slow
def test_served_models_and_onnx_answer_alike(
    doors: dict[str, Door], more_doors: dict[str, Door]
) -> None:
    check_alike(more_doors, doors["model()"])
