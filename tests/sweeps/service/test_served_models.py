"""Exported and registered classifiers read raw samples, and give the sweep's probabilities."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import requests
import torch
from mlflow.pyfunc.scoring_server import invocations
from sklearn.datasets import load_digits

from calsweep import load as load_result
from sweeps.planning.data import load_data
from sweeps.service.delivery.exporting import export_model
from sweeps.service.delivery.registering import register
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.loading import parse_sweep
from sweeps.sweep_file.schema import SweepFile
from sweeps.tracking.address import tracking_uri
from tests.harness.tiny_bert import save_tiny_bert
from tests.harness.tracked import client_of, mirrored
from tests.harness.trained import train_sweep
from trainables.data.kinds.encode import encode
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.raw_samples import describe_samples
from trainables.metrics import expected_calibration_error

ALONE = """
import json, os, pickle, sys
import numpy as np, torch
for folder in sys.argv[1:]:
    os.chdir(folder)
    sys.modules.pop("encode", None)
    from encode import encode
    about = json.load(open("model.json", encoding="utf-8"))
    raw = pickle.load(open("raw.pickle", "rb"))
    rows = torch.from_numpy(encode(about["samples"], raw))
    probs = torch.export.load("model.pt2").module()(rows)
    np.save("probs.npy", probs.detach().numpy())
print([name for name in sys.modules if name.startswith(("trainables", "sweeps", "mlflow"))])
"""
FRAME = pd.DataFrame(
    {
        "size": [i % 7 for i in range(120)],
        "weight": [None if i % 11 == 3 else i / 7 for i in range(120)],
        "hue": [("red", "blue", None)[i % 3] for i in range(120)],
        "member": [i % 4 == 0 for i in range(120)],
        "since": [f"20{10 + i % 9}-0{1 + i % 8}-1{i % 10}" for i in range(120)],
        "said": [f"it was {'very good' if i % 2 else 'bad'} on day {i}" for i in range(120)],
        "label": [("no", "yes")[i % 2] for i in range(120)],
    }
)
FEATURES: dict[str, dict[str, Any]] = {
    "numbers": {"features": ["size", "weight"]},
    "mixed": {"features": ["size", "weight", "hue", "member"], "dates": ["since"]},
    "texts": {"text": "said"},
}
MODELS = {"texts": "text_mlp", "images": "small_cnn"}
KINDS = [*FEATURES, "images", "tokenizer", "loop"]
PIECES = ["it", "was", "very", "good", "bad", "on", "day", *map(str, range(10))]
LOOPS = Path(__file__).parents[3] / "examples/own_loop"
UNSEEN = pytest.mark.filterwarnings("ignore:.* do not occur in training")


def raw_samples(kind: str) -> Any:
    """Raw samples as a user has them; some values did not occur in training."""
    if kind == "images":
        return load_digits().images[:9].astype(np.uint8)[:, None] * 15
    if kind in ("texts", "tokenizer"):
        return [*FRAME["said"][:8], "Entirely new words"]
    frame = FRAME[:9].drop(columns="label")
    return frame.assign(hue=[*frame["hue"][:8], "green"])


def sweep_of(kind: str, folder: Path) -> SweepFile:
    FRAME.to_csv(folder / "data.csv", index=False)
    data = str(folder / "data.csv")
    dataset: dict[str, Any] = {"name": "csv", "train": data, "test": data, "label": "label"}
    trained: dict[str, Any] = {"model": {"name": MODELS.get(kind, "table_mlp")}}
    if kind == "images":
        dataset = {"name": "digits", "train_samples": 200}
    elif kind == "tokenizer":
        place = str(save_tiny_bert(folder / "bert", PIECES))
        dataset |= {"text": "said", "tokenizer": place}
        trained = {"model": {"name": f"huggingface/{place}"}}
    elif kind == "loop":
        dataset |= FEATURES["mixed"]
        trained = {"trainable": {"name": "plain:train", "load": "plain:load"}}
    else:
        dataset |= FEATURES[kind]
    recipe = {} if kind == "loop" else {"batch_size": 64, "lr": 0.02}
    sections = {
        "name": kind,
        "dataset": dataset,
        "losses": ["focal"],
        "training": {"epochs": 1, **recipe},
        "search": {"guard": 1.0},
        "selection": {"finalists": 0, "seeds": 0},
    }
    return parse_sweep(sections | trained)


@pytest.fixture(scope="module", autouse=True)
def _loops() -> Iterator[None]:
    """The example of a custom loop can be imported, as from a user's working folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(LOOPS)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SweepStore]:
    """A sweep of each kind."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    return {kind: train_sweep(f / "store", sweep_of(kind, f), []) for kind, f in folders.items()}


def predicted(store: SweepStore, raw: Any) -> npt.NDArray[np.float32]:
    """The probabilities of the recommended model, as from Python."""
    probs: npt.NDArray[np.float32] = (
        load_result(store.storage, store.name).model().predict_proba(raw)
    )
    return probs


@UNSEEN
@pytest.mark.parametrize("kind", KINDS)
def test_the_file_encodes_as_training_does(tmp_path: Path, kind: str) -> None:
    samples = load_data(sweep_of(kind, tmp_path)).samples
    described = json.loads(json.dumps(describe_samples(samples)))
    classifier = CalibratedClassifier(torch.nn.Identity(), samples, 1.0, ("no", "yes"))
    raw = raw_samples(kind)
    np.testing.assert_array_equal(encode(described, raw), classifier.encode(raw))


def test_values_that_cannot_be_encoded() -> None:
    images = {"kind": "Images", "shape": [1, 2, 2], "mean": [0.4]}
    dark = np.ones((3, 2, 2), np.uint8)
    assert encode({**images, "mean": [0.002]}, dark).shape == (3, 1, 2, 2)  # as in training
    assert encode(images, np.full((3, 2, 2, 1), 200, np.uint8)).shape == (3, 1, 2, 2)
    with pytest.raises(ValueError, match="all values are 0 or 1"):
        encode(images, dark)
    with pytest.warns(UserWarning, match="the highest value is 16"):
        encode(images, dark * 16)
    with pytest.raises(TypeError, match="uint8 from 0 to 255, not float64"):
        encode(images, dark / 2)
    with pytest.raises(ValueError, match="not an array of shape"):
        encode(images, np.zeros((3, 3, 2), np.uint8))
    table = {"kind": "TableRows", "numeric": ["a"], "mean": [0], "std": [1]}
    table |= {"categorical": [], "levels": []}
    for values, error in (("x", "a is .x., not a number"), (np.inf, "infinite")):
        with pytest.raises(ValueError, match=error):
            encode(table, pd.DataFrame({"a": [values]}))
    with pytest.raises(ValueError, match="no column 'a'; the columns: b"):
        encode(table, pd.DataFrame({"b": [1]}))
    words = {"kind": "Tokens", "vocabulary": ["good"], "shape": [3]}
    assert encode(words, ["Good, bad"]).tolist() == [[2, 1, 0]]
    with pytest.raises(TypeError, match="must be strings, not None"):
        encode(words, ["a", None])


@UNSEEN
@pytest.mark.slow
def test_folders_encode_raw_samples_without_calsweep(
    tmp_path: Path, trained: dict[str, SweepStore]
) -> None:
    folders = []
    for kind, store in trained.items():
        folder, _ = export_model(kind, store.storage, str(tmp_path / kind))
        pd.to_pickle(raw_samples(kind), Path(folder) / "raw.pickle")
        assert "from encode import encode" in (Path(folder) / "README.md").read_text()
        folders.append(folder)
    done = subprocess.run(  # in the current folder, as from its README
        [sys.executable, "-c", ALONE, *folders],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    for (kind, store), folder in zip(trained.items(), folders, strict=True):
        expected = predicted(store, raw_samples(kind))
        found = np.load(Path(folder) / "probs.npy")
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=kind)


def registered(store: SweepStore) -> str:
    mirrored(store)
    sentence = register(store.name, store.storage)
    assert "@champion is version 1: the sweep has no warnings" in sentence
    return sentence.split()[0]


def requested(raw: Any) -> dict[str, Any]:
    """The body of a request as clients write it."""
    if not isinstance(raw, pd.DataFrame):
        return {"inputs": raw if isinstance(raw, list) else raw.tolist()}
    return {"dataframe_records": json.loads(raw.to_json(orient="records"))}


def answer_of(model: mlflow.pyfunc.PyFuncModel, body: dict[str, Any]) -> str:
    """The reply to one request, by the function that `mlflow models serve` calls."""
    schema = model.metadata.get_input_schema()
    reply = invocations(json.dumps(body), "application/json", model, schema)
    assert reply.status == 200, reply.response
    return str(reply.response)


def answer_of_server(model: str, body: dict[str, Any], log: Path) -> str:
    """The reply of `mlflow models serve` to one request."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = ["-m", "mlflow", "models", "serve", "-m", model, "-p", port, "--env-manager", "local"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, *command],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            end = time.monotonic() + 240
            while time.monotonic() < end and server.poll() is None:
                try:
                    requests.get(f"http://127.0.0.1:{port}/ping", timeout=5).raise_for_status()
                    break
                except requests.RequestException:
                    time.sleep(0.5)
            address = f"http://127.0.0.1:{port}/invocations"
            reply = requests.post(address, json=body, timeout=60)
            assert reply.status_code == 200, reply.text
            return reply.text
        finally:
            os.killpg(server.pid, 15)
            server.wait()


@UNSEEN
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_registered_model_reads_raw_samples_also_over_http(
    tmp_path: Path, trained: dict[str, SweepStore], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = trained[kind]
    raw, address = raw_samples(kind), registered(store)
    expected = predicted(store, raw)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri(store.storage))
    model = mlflow.pyfunc.load_model(address)
    found = model.predict(raw)
    assert list(found.columns) == list(load_data(store.load_sweep()).classes)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert model.input_example is not None or kind in ("mixed", "loop")
    client = client_of(Path(store.storage))
    version = client.get_model_version_by_alias(address.split("/")[1].split("@")[0], "champion")
    test = load_data(store.load_sweep()).test
    probs = load_result(store.storage, store.name).model()(torch.from_numpy(test.inputs.copy()))
    ece = expected_calibration_error(probs, torch.from_numpy(test.labels.copy()))
    assert float(version.tags["test_ece"]) == pytest.approx(ece, abs=1e-5)
    replies = [answer_of(model, requested(raw))]
    if kind == "mixed":
        replies.append(answer_of_server(address, requested(raw), tmp_path / "log"))
    for reply in replies:
        served: npt.NDArray[Any] = np.array(pd.DataFrame(json.loads(reply)["predictions"]))
        np.testing.assert_allclose(served, expected, atol=1e-5)
    if kind == "images":
        with pytest.raises(ValueError, match="all values are 0 or 1"):
            model.predict((raw > 128).astype(np.uint8))
        with pytest.warns(UserWarning, match="the highest value is 15"):
            model.predict(raw // 16)
