"""An exported classifier equals the sweep's, needs only PyTorch, and reads new samples."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from calsweep import load as load_result
from sweeps.errors import SweepFailedError, UserError
from sweeps.evidence.ensemble import Pool, Selected
from sweeps.judging.applied import Decision, NamedScaling
from sweeps.planning.data import load_data
from sweeps.results.evidence import Evidence
from sweeps.results.explanation import result_of
from sweeps.results.verdicts import Verdict
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.backend import RunningSweep
from sweeps.service.course import _register
from sweeps.service.delivery.delivered import Wanted, deliver, predicted_on_test
from sweeps.service.delivery.exporting import export_model
from sweeps.service.delivery.predicting import Asked, predict
from sweeps.service.delivery.registering import register
from sweeps.service.in_process import InProcess
from sweeps.service.reading.stored import StoredSweep
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from tests.builders import SCALED, compared, handed_out, make_sweep, write_predictions
from tests.harness.command import calsweep
from tests.harness.trained import train_sweep
from trainables.export.exported import run_onnx
from trainables.files.rows import Rows
from trainables.posthoc import Scaling
from trainables.posthoc.ensembles import Ensemble, fit_mean

ALONE = """
import json, sys
import numpy as np, torch
classify = torch.export.load("model.pt2").module()
probs = classify(torch.from_numpy(np.load("rows.npy")))
np.save("probs.npy", probs.detach().numpy())
print(json.dumps([name for name in sys.modules if name.startswith(("trainables", "sweeps"))]))
"""


def small(name: str, **sections: Any) -> SweepFile:
    known: dict[str, Any] = {
        "dataset": {"name": "digits", "train_samples": 200},
        "model": {"name": "small_cnn", "width": 4},
        "losses": ["focal"],
        "training": {"epochs": 1, "batch_size": 64, "lr": 0.05},
        "search": {"guard": 1.0},
        "selection": {"finalists": 0, "seeds": 0},
    }
    return make_sweep(name, **{**known, **sections})


def recommended(store: SweepStore) -> tuple[torch.Tensor, Any]:
    """Test probabilities of the recommended classifier, and its record."""
    found = load_result(store.storage, store.name).recommended
    assert found is not None
    (number,) = found.trials
    return probabilities(store, number), store.load_records()[number]


def probabilities(store: SweepStore, number: int) -> torch.Tensor:
    return handed_out(store, number)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SweepStore:
    folder = tmp_path_factory.mktemp("exported")
    return train_sweep(folder / "calsweep-store", small("small"), [("focal", 1.0), ("focal", 3.0)])


@pytest.fixture(scope="module")
def folder(store: SweepStore) -> Path:
    """The folder of the export."""
    made, _ = export_model("small", store.storage, str(Path(store.storage).with_name("model")))
    return Path(made)


def test_it_gives_the_sweeps_own_probabilities_without_calsweep(
    store: SweepStore, folder: Path
) -> None:
    rows = load_data(store.load_sweep()).test.inputs.copy()
    np.save(folder / "rows.npy", rows)
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=folder, check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == []
    expected, record = recommended(store)
    assert np.allclose(np.load(folder / "probs.npy"), expected, atol=1e-5)
    about = json.loads((folder / "model.json").read_text())
    assert about["temperature"] == record.outcome["temperature"]
    assert about["hyperparameters"] == record.hyperparameters
    assert about["test"]["ece"] == record.outcome["test_ece"]
    assert about["classes"] == [str(digit) for digit in range(10)]
    weights = torch.load(folder / "weights.pt", weights_only=True)
    assert "head.weight" in weights
    assert "uint8, (N, 1, 8, 8) -> float32, (N, 10)" in (folder / "README.md").read_text()


def keep_verdict(store: SweepStore, verdict: Verdict) -> None:
    """Let the stored evidence about focal loss have this verdict."""
    theirs = f"cross_entropy{SCALED}"
    found = compared("focal", theirs, "ece", -0.01, -0.02, 0.0, verdict, 1, "test")
    sweep = store.load_sweep()
    ranking = Ranking(store.load_records(), rule_of(sweep))
    store.save_answer(result_of(ranking, Plan(sweep), Evidence((found,))).to_json())


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> SweepStore:
    """A sweep whose selected setting is a focal loss."""
    sweep = small("judged", search={"guard": 1.0, "objective": "val_nll_scaled"})
    folder = tmp_path_factory.mktemp("judged")
    return train_sweep(folder, sweep, [("focal", 3.0)])


@pytest.mark.parametrize(("verdict", "number"), [("supported", 1), ("not supported", 0)])
def test_everything_delivers_what_is_recommended(
    judged: SweepStore, tmp_path: Path, verdict: Verdict, number: int
) -> None:
    keep_verdict(judged, verdict)
    result = load_result(judged.storage, "judged")
    assert result.best is not None and result.best.loss == "focal"
    assert result.recommended is not None and result.recommended.trials == (number,)
    expected = probabilities(judged, number)
    rows = load_data(judged.load_sweep()).test.inputs.copy()
    assert np.allclose(result.model().predict_proba(rows), expected, atol=1e-5)
    made, _ = export_model("judged", judged.storage, str(tmp_path / "model"))
    program = torch.export.load(str(Path(made) / "model.pt2")).module()
    assert np.allclose(program(torch.from_numpy(rows)).detach(), expected, atol=1e-5)
    np.save(tmp_path / "rows.npy", rows[:3])
    table = io.StringIO()
    predict(made, str(tmp_path / "rows.npy"), table)
    _, *lines = csv.reader(table.getvalue().splitlines())
    read = [[float(p) for p in line[3:]] for line in lines]
    assert np.allclose(read, expected[:3], atol=1e-5)
    about = json.loads((Path(made) / "model.json").read_text())
    assert (about["recommended"], about["why"]) == (True, result.recommended.why)
    assert repr(result).startswith("★ Recommended: ")


@pytest.mark.parametrize(
    ("wanted", "number"),
    [(Wanted(selected=True), 1), (Wanted(loss="focal"), 1), (Wanted(trial=1), 1)],
)
def test_others_are_delivered_by_request(judged: SweepStore, wanted: Wanted, number: int) -> None:
    keep_verdict(judged, "not supported")
    sweep = StoredSweep.read("judged", judged.storage)
    found = deliver(sweep, wanted)
    assert (found.number, found.recommended) == (str(number), False)
    assert found.why.startswith(f"Asked for: {wanted}. Recommended: cross-entropy with a")
    assert deliver(sweep, Wanted(trial=0)).recommended


def test_requests_that_cannot_be_met_are_reported(judged: SweepStore) -> None:
    result = load_result(judged.storage, "judged")
    with pytest.raises(UserError, match=r"selected and trial 1: allowed: one of them"):
        result.model(selected=True, trial=1)
    with pytest.raises(UserError, match=r"trial = 7: no finished .* allowed: 0, 1$"):
        result.model(trial=7)
    with pytest.raises(UserError, match=r"loss = mmce: .* allowed: \S*, \S*$"):
        result.model(loss="mmce")


@pytest.mark.slow
def test_the_same_as_onnx(store: SweepStore, tmp_path: Path) -> None:
    made, _ = export_model("small", store.storage, str(tmp_path / "model"), onnx=True)
    rows = load_data(store.load_sweep()).test.inputs[:7].copy()
    found = run_onnx((Path(made) / "model.onnx").read_bytes(), rows)
    assert np.allclose(found, recommended(store)[0][:7], atol=1e-5)


def test_onnx_requires_its_packages(store: SweepStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.plugins.extras.find_spec", lambda name: None)
    with pytest.raises(UserError, match=re.escape('pip install "calsweep[onnx]"')):
        export_model("small", store.storage, onnx=True)
    assert not Path("small-model").exists()


@pytest.mark.slow
def test_predict_reads_images_and_arrays(store: SweepStore, folder: Path, tmp_path: Path) -> None:
    rows = load_data(store.load_sweep()).test.inputs[:3]
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "pictures").mkdir()
    for number, row in enumerate(rows):
        Image.fromarray(row[0]).save(tmp_path / "pictures" / f"{number}.png")
    expected, _ = recommended(store)
    for data in ("rows.npy", "pictures"):
        done = calsweep(tmp_path, "predict", str(folder), data)
        assert done.returncode == 0, done.stderr
        head, *lines = csv.reader(done.stdout.splitlines())
        assert head == ["sample", "class", "confidence", *(f"p({k})" for k in range(10))]
        read = torch.tensor([[float(p) for p in line[3:]] for line in lines])
        assert torch.allclose(read, expected[:3], atol=1e-5)
        for line, probs in zip(lines, expected[:3], strict=True):
            assert line[1] == str(int(probs.argmax()))
            assert float(line[2]) == pytest.approx(float(probs.max()), abs=1e-5)
    assert lines[0][0].endswith("0.png")
    done = calsweep(tmp_path, "predict", str(folder), "rows.npy", "--output", "out.csv")
    assert "(3 samples)" in done.stdout
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 4
    done = calsweep(tmp_path, "predict", str(folder), "rows.npy", "--coverage", "0.9")
    head, *lines = csv.reader(done.stdout.splitlines())
    assert head[:5] == ["sample", "class", "confidence", "set", "p(0)"]
    least = json.loads((folder / "model.json").read_text())["prediction_sets"]["lac"]["0.9"]
    for line in lines:
        probs = [float(p) for p in line[4:]]
        inside = [k for k, p in enumerate(probs) if p >= least["least_probability"]]
        assert line[3].split("|") == [str(k) for k in inside or [int(line[1])]]
    done = calsweep(
        tmp_path, "predict", str(folder), "rows.npy", "--coverage", "0.9", "--method", "aps"
    )
    _, *lines = csv.reader(done.stdout.splitlines())
    assert all(line[1] in line[3].split("|") for line in lines)
    refused = calsweep(tmp_path, "predict", str(folder), "rows.npy", "--coverage", "0.7")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--coverage 0.7: allowed: 0.8, 0.9" in refused.stderr
    (tmp_path / "pictures" / "1.png").write_bytes(b"no image")
    refused = calsweep(tmp_path, "predict", str(folder), "pictures")
    assert refused.returncode == 2
    assert "1.png: not a readable image" in refused.stderr
    done = calsweep(tmp_path, "predict", str(folder), "pictures", "--on-bad-sample", "skip")
    assert done.stderr.startswith("1 of 3 samples are skipped:\npictures/1.png: not a readable")
    names = [line[0] for line in csv.reader(done.stdout.splitlines())]
    assert names == ["sample", "pictures/0.png", "pictures/2.png"]


def test_samples_of_the_users_own_kind_are_left_to_python(folder: Path, tmp_path: Path) -> None:
    """A folder as `calsweep export` writes it for a kind of sample that calsweep does not have."""
    shutil.copytree(folder, tmp_path / "model")
    about = json.loads((folder / "model.json").read_bytes())
    about["samples"] = {"kind": "Spectra", "shape": [64]}
    (tmp_path / "model" / "model.json").write_text(json.dumps(about))
    with pytest.raises(UserError, match=r"samples are Spectra, .*; load model\.pt2 in Python"):
        predict(str(tmp_path / "model"), "rows.npy", sys.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "texts", "sequences"])
def test_predict_encodes_tables_and_texts_as_in_training(tmp_path: Path, kind: str) -> None:
    rows = ["size,colour,said,label"]
    for i in range(120):
        said = f"it was {'very good' if i % 2 else 'rather bad'} on day {i}"
        rows.append(f"{i % 7},{'red' if i % 2 else 'blue'},{said},{'yes' if i % 2 else 'no'}")
    data = tmp_path / "data.csv"
    data.write_text("\n".join(rows))
    options = {"features": ["size", "colour"]} if kind == "table" else {"text": "said"}
    names = {"table": "table_mlp", "texts": "text_mlp", "sequences": "gpool_cnn"}
    model = {"name": names[kind]}
    dataset = {"name": "csv", "train": str(data), "test": str(data), "label": "label", **options}
    store = train_sweep(tmp_path / "store", small("own", dataset=dataset, model=model), [])
    export_model("own", store.storage, str(tmp_path / "model"))
    done = calsweep(tmp_path, "predict", "model", "data.csv")
    assert done.returncode == 0, done.stderr
    head, *lines = csv.reader(done.stdout.splitlines())
    assert head[3:] == ["p(no)", "p(yes)"]
    expected, _ = recommended(store)
    read = torch.tensor([[float(p) for p in line[3:]] for line in lines])
    assert torch.allclose(read, expected, atol=1e-5)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    wrong = calsweep(tmp_path, "predict", "model", "other.csv")
    assert wrong.returncode == 2
    assert "no column" in wrong.stderr


@pytest.mark.parametrize(
    ("encoder", "tolerance"),
    [
        ({"loss": "supcon", "training": {"epochs": 1, "batch_size": 64, "lr": 0.05}}, 1e-5),
        ({"frozen": True, "head": "mlp"}, 5e-3),  # its features were stored in half precision
    ],
)
def test_two_stages_are_exported_as_one(
    tmp_path: Path, encoder: dict[str, Any], tolerance: float
) -> None:
    store = train_sweep(tmp_path / "store", small("two", encoder=encoder), [("focal", 1.0)])
    made, _ = export_model("two", store.storage, str(tmp_path / "model"))
    classify = torch.export.load(f"{made}/model.pt2").module()
    rows = load_data(store.load_sweep()).test.inputs.copy()
    expected, _ = recommended(store)
    assert torch.allclose(classify(torch.from_numpy(rows)), expected, atol=tolerance)


def test_an_export_before_the_end_says_so(store: SweepStore, tmp_path: Path) -> None:
    kept = store.folder.read("answer.json")
    store.folder.delete("answer.json")
    try:
        _, label = export_model("small", store.storage, str(tmp_path / "model"))
    finally:
        store.folder.write("answer.json", kept)
    assert label.endswith("; the sweep is not finished, and may recommend another")


def test_what_cannot_be_exported_is_reported(
    store: SweepStore, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="already exists"):
        export_model("small", store.storage, str(folder))
    with pytest.raises(UserError, match="not a folder that `calsweep export` has written"):
        predict(str(tmp_path), "x.npy", sys.stdout)
    away = train_sweep(tmp_path / "store", small("away"), [])
    with pytest.raises(UserError, match=r"`calsweep sync away --storage \S+` writes it"):
        register("away", away.storage)
    identity = json.loads(away.folder.read("identity.json"))
    away.folder.write("identity.json", json.dumps({**identity, "digest": "0"}).encode())
    with pytest.raises(UserError, match="the data are not those"):
        export_model("away", away.storage, str(tmp_path / "model"))
    away.folder.write("identity.json", json.dumps(identity).encode())
    own = away.trial_folder(0)
    logits, labels = Rows.read(own, "test").tensors()
    write_predictions(own, "test", (-logits, labels))
    with pytest.raises(SweepFailedError, match="differs from what the trial predicted"):
        export_model("away", away.storage, str(tmp_path / "model"))
    checkpoints = own / "checkpoints"
    for name in checkpoints.names():
        checkpoints.write(name, b"cut short")
    with pytest.raises(UserError, match=r"cannot be loaded: the checkpoints in \S+ are damaged"):
        export_model("away", away.storage, str(tmp_path / "model"))
    away.delete_checkpoints()
    with pytest.raises(UserError, match="cannot be loaded: there is no checkpoint in"):
        export_model("away", away.storage, str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()


def test_a_sweep_that_cannot_register_its_choice_says_so(
    store: SweepStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = store.load_sweep()
    ranking, data = Ranking(store.load_records(), rule_of(sweep)), load_data(sweep)
    text = io.StringIO()
    progress = Progress(plain_console(file=text, width=1000))
    away = SweepStore(str(tmp_path), "small")  # a sweep that is not in MLflow
    away.create(sweep)
    running = RunningSweep(Plan(sweep), away, data, InProcess(), progress, "")
    _register(running, ranking, None)
    _register(replace(running, store=store), ranking, "connection refused")
    warnings = [line for line in text.getvalue().splitlines() if line.startswith("not registered")]
    where = f" --storage {away.storage}`"
    again = "`calsweep export small --register --storage"
    assert warnings == [
        "not registered in MLflow: MLflow does not have sweep 'small' yet; `calsweep sync small"
        f"{where} writes it; {again} {away.storage}` tries again",
        f"not registered in MLflow: MLflow is not up to date; {again} {store.storage}` tries again",
    ]
    assert "the recommended classifier is not registered" in caplog.text


@pytest.fixture
def selected(store: SweepStore, monkeypatch: pytest.MonkeyPatch) -> Selected:
    """A fixed ensemble of two networks."""
    pool = Ranking(store.load_records(), rule_of(store.load_sweep()))
    first, second = (each.trials[0] for each in pool.candidates[:2])
    known = [read_split(store, each.number, "validation") for each in (first, second)]
    found = Selected(
        "ensemble",
        (first, second),
        Ensemble((0, 1), (0.8, 1.2), Scaling("temperature", 0.9)),
        Pool((first, second), [logits for logits, _ in known], known[0][1], groups=None),
        fit_mean,
        store.rows,
    )
    monkeypatch.setattr("sweeps.service.delivery.delivered.select_ensemble", lambda *_: found)
    return found


def read_split(store: SweepStore, number: int, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    return Rows.read(store.trial_folder(number), split).tensors()


def test_the_ensemble_is_one_program(store: SweepStore, selected: Selected, tmp_path: Path) -> None:
    made, label = export_model(
        "small", store.storage, str(tmp_path / "model"), wanted=Wanted(ensemble=True)
    )
    assert label.startswith("ensemble of 2 networks, T = ") and label.endswith(", not recommended")
    numbers = [trial.number for trial in selected.pool.trials]
    (first, labels), (second, _) = (read_split(store, number, "test") for number in numbers)
    mean = ((first / 0.8).softmax(1) + (second / 1.2).softmax(1)) / 2
    expected = (mean.log() / 0.9).softmax(dim=1)
    rows = load_data(store.load_sweep()).test.inputs.copy()
    program = torch.export.load(str(Path(made) / "model.pt2")).module()
    assert np.allclose(program(torch.from_numpy(rows)).detach(), expected, atol=1e-5)
    module = load_result(store.storage, "small").ensemble()
    assert np.allclose(module.predict_proba(rows), expected, atol=1e-5)
    about = json.loads((Path(made) / "model.json").read_text())
    assert (about["networks"], about["loss"]) == (2, "ensemble")
    np.save(tmp_path / "rows.npy", rows[:2])
    table = io.StringIO()
    assert predict(made, str(tmp_path / "rows.npy"), table, Asked(coverage=0.9)) == (2, ())
    assert table.getvalue().startswith("sample,class,confidence,set,")
    sets = about["prediction_sets"]["lac"]["0.9"]
    inside = expected >= sets["least_probability"]
    inside |= expected == expected.amax(1, keepdim=True)
    assert sets["coverage"] == float(inside.gather(1, labels[:, None]).double().mean())
    assert sets["size"] == pytest.approx(float(inside.sum(1).double().mean()))


def test_predictions_follow_a_scaling_a_prior_and_thresholds(
    store: SweepStore, folder: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "rows.npy", load_data(store.load_sweep()).test.inputs[:300])
    expected = recommended(store)[0][:300].double()

    def probs_of(asked: Asked) -> tuple[torch.Tensor, list[dict[str, str]], tuple[str, ...]]:
        table = io.StringIO()
        _, notes = predict(str(folder), str(tmp_path / "rows.npy"), table, asked)
        rows = list(csv.DictReader(table.getvalue().splitlines()))
        names = [f"p({digit})" for digit in range(10)]
        return torch.tensor([[float(row[n]) for n in names] for row in rows]), rows, notes

    classes = tuple(map(str, range(9, -1, -1)))  # in another order
    scaled = (expected.log() / 2).softmax(dim=1)
    sure = scaled.max(dim=1)
    decision = Decision(accept=float(sure.values.median()) + 1e-4)
    named = NamedScaling(Scaling("temperature", 2.0), classes, (0.1,) * 10, decision)
    (tmp_path / "scaling.json").write_text(named.text())
    found, rows, _ = probs_of(Asked(scaling=str(tmp_path / "scaling.json")))
    assert np.allclose(found, scaled, atol=1e-5)
    pairs = zip(*map(torch.Tensor.tolist, sure), strict=True)
    decided = [str(k) if p >= decision.accept else "abstain" for p, k in pairs]
    assert [row["decision"] for row in rows] == decided and len({*decided}) > 2
    found, _, notes = probs_of(Asked(scaling=str(tmp_path / "scaling.json"), prior="3=.55"))
    odds = scaled * torch.where(torch.arange(10) == 3, 5.5, 0.5)
    assert np.allclose(found, odds / odds.sum(1, keepdim=True), atol=1e-5)
    assert notes == (
        "prior: " + ", ".join(f"{k} 10.0 → {'55.0' if k == 3 else '5.0'} %" for k in range(10)),
    )
    frequencies = NamedScaling.read(folder).frequencies
    assert sum(frequencies) == pytest.approx(1)
    assert probs_of(Asked(prior="estimate"))[2][0].startswith("prior: 0 ")
    for asked, message in (("10=.5", "write `estimate`"), ("1=2", "write `estimate`")):
        with pytest.raises(UserError, match=message):
            probs_of(Asked(prior=asked))
    with pytest.raises(UserError, match="coverage: with scaling or prior"):
        Asked(coverage=0.9, prior="estimate")
    thresholds = json.loads((folder / "model.json").read_text())["prediction_sets"]["lac"]["0.8"]
    _, rows, _ = probs_of(Asked(coverage=0.8, sets="per_class"))
    limits = [math.inf if each is None else each for each in thresholds["class_thresholds"]]
    inside = 1 - expected <= torch.tensor(limits, dtype=torch.float64) + 1e-7
    inside |= expected == expected.amax(1, keepdim=True)
    held = [{*row["set"].split("|")} for row in rows]
    assert held == [{str(k) for k in range(10) if row[k]} for row in inside.tolist()]
    then = predicted_on_test("small", store.storage)
    assert np.allclose(then.probs[:300], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("selected")
def test_the_ensemble_as_onnx(store: SweepStore, tmp_path: Path) -> None:
    output = str(tmp_path / "model")
    made, _ = export_model("small", store.storage, output, onnx=True, wanted=Wanted(ensemble=True))
    rows = load_data(store.load_sweep()).test.inputs[:7].copy()
    found = run_onnx((Path(made) / "model.onnx").read_bytes(), rows)
    module = load_result(store.storage, "small").ensemble()
    assert np.allclose(found, module.predict_proba(rows), atol=1e-5)


def test_there_is_no_ensemble_of_one_trial(tmp_path: Path) -> None:
    train_sweep(tmp_path, small("alone"), [])
    with pytest.raises(UserError, match="has no ensemble: fewer than three finished trials"):
        export_model("alone", str(tmp_path), str(tmp_path / "model"), wanted=Wanted(ensemble=True))
    assert not (tmp_path / "model").exists()
