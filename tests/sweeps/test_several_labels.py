"""Multi-label data in the format of ChestX-ray14: from files to the export."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

import calsweep
from calsweep.composing import Composer
from sweeps.errors import UserError
from sweeps.evidence.comparison import compare
from sweeps.evidence.scaling import scaled_rows
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.data_preview import data_facts
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.delivery.exporting import export_model
from sweeps.service.delivery.loading import load_same_data, load_trained
from sweeps.service.delivery.predicting import predict
from sweeps.service.reading.mistakes import keep_mistakes, load_mistakes
from sweeps.service.reading.stored import StoredSweep
from sweeps.service.reading.writing import write_report
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep
from tests.harness.trained import train_sweep
from trainables.data import load_dataset
from trainables.data.core.tasks import SeveralLabels
from trainables.files.rows import Rows
from trainables.trials.outcome import evaluate

FINDINGS = {"Even": (0, 2, 4, 6, 8), "Large": (7, 8, 9), "Round": (0, 6, 8, 9)}
RECIPE = {"epochs": 6, "batch_size": 32, "optimizer": "adam", "lr": 0.01}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PNG images of digits, and a table of paths and findings separated by bars."""
    folder, digits = tmp_path_factory.mktemp("xray"), load_dataset("digits", seed=0)
    (folder / "images").mkdir()
    lines = ["Image Index,Patient Age,Finding Labels"]
    for row, (pixels, digit) in enumerate(
        zip(digits.train.inputs[:500], digits.train.labels[:500].tolist(), strict=True)
    ):
        Image.fromarray(pixels[0]).save(folder / "images" / f"{row}.png")
        found = [name for name, digits_of in FINDINGS.items() if digit in digits_of]
        lines.append(f"images/{row}.png,58,{'|'.join(found) or 'No Finding'}")
    (folder / "entries.csv").write_text("\n".join(lines))
    return folder


def section(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "name": "csv",
        "train": str(folder / "entries.csv"),
        "image": "Image Index",
        "label": "Finding Labels",
        "separator": "|",
        "labels": list(FINDINGS),
        **more,
    }


def sweep_of(folder: Path, name: str = "xray", **sections: Any) -> SweepFile:
    known: dict[str, Any] = {
        "dataset": section(folder),
        "model": {"name": "small_cnn", "width": 8},
        "losses": ["focal"],
        "training": RECIPE,
        "search": {"guard": 1.0},
        "selection": {"finalists": 0, "seeds": 0},
    }
    return make_sweep(name, **{**known, **sections})


@pytest.fixture(scope="module")
def store(folder: Path) -> SweepStore:
    return train_sweep(folder / "store", sweep_of(folder), [("focal", 2.0)])


def test_pictures_and_findings_are_read(folder: Path) -> None:
    dataset = load_data(sweep_of(folder))
    assert dataset.task == SeveralLabels(tuple(FINDINGS))
    assert (dataset.classes, dataset.num_outputs) == (("no", "yes"), 3)
    assert dataset.train.labels.shape == (len(dataset.train), 3)
    shares = [split.labels.mean(0) for split in (dataset.train, dataset.validation, dataset.test)]
    np.testing.assert_allclose(shares[1], shares[0], atol=0.05)
    assert not dataset.test.labels.any(1).all()  # "No Finding" is not a label
    facts = data_facts(Plan(fit_to_data(sweep_of(folder), dataset)), dataset)
    assert facts["data"].endswith("samples of 3 labels, each there or not")
    assert "can detect" not in facts
    options = {k: v for k, v in section(folder).items() if k not in ("name", "labels")}
    everything = load_dataset("csv", seed=0, **options)
    assert everything.task.names == ("Even", "Large", "No Finding", "Round")


def test_pictures_may_stay_on_the_disk(folder: Path) -> None:
    kept, streamed = (
        load_data(sweep_of(folder, dataset=section(folder, storage=storage)))
        for storage in ("memory", "stream")
    )
    assert streamed.test.is_streamed
    assert streamed.task == kept.task
    np.testing.assert_array_equal(streamed.test.labels, kept.test.labels)
    np.testing.assert_array_equal(streamed.test.rows(slice(None)), kept.test.inputs)


def test_trials_learn_every_label(store: SweepStore) -> None:
    dataset = load_data(store.load_sweep())
    for record in store.load_records():
        outcome = record.outcome
        logits, labels = Rows.read(store.trial_folder(record.number), "test").tensors()
        assert labels.view(-1, 3).tolist() == dataset.test.labels.tolist()
        scores = (logits[:, 1] - logits[:, 0]).view(-1, 3)
        by_label = [
            roc_auc_score(truth, score)
            for truth, score in zip(dataset.test.labels.T, scores.T, strict=True)
        ]
        assert min(by_label) > 0.85
        assert outcome["test_auroc"] == pytest.approx(np.mean(by_label))
        assert outcome["test_ece_low"] <= outcome["test_ece"] <= 0.3
        assert outcome["temperature"] > 0


def test_the_choice_is_compared_and_reported(store: SweepStore, tmp_path: Path) -> None:
    ranking = Ranking(store.load_records(), rule_of(store.load_sweep()))
    found = compare(ranking, store.rows)
    assert found
    assert all(each.low <= each.value <= each.high for each in found)
    dataset = load_data(store.load_sweep())
    keep_mistakes(store, ranking.records[0], dataset, ranking.rule.scaling)
    assert all(text.startswith("data:image/png") for text in load_mistakes(store).values())
    page = Path(
        write_report("xray", store.storage, str(Path(store.storage) / "a.html"))
    ).read_text()
    assert ranking.chosen is not None
    outcome = ranking.chosen.judged[0].outcome
    assert f"as trained, ECE {outcome['test_ece']:.4f}" in page
    assert f"{len(dataset.test)} samples, a decision on each of 3 labels" in page
    for text in ("Per-label calibration", "Round: yes", "Even: no"):
        assert text in page


def test_the_choice_label_by_label(store: SweepStore) -> None:
    result = calsweep.load(store.storage, "xray")
    found = result.by_label()
    assert list(found["label"]) == list(FINDINGS)
    assert result.best is not None
    for metric in ("ece", "nll", "error"):
        assert found[metric].mean() == pytest.approx(result.best.test[metric])
    ranking = Ranking(store.load_records(), rule_of(store.load_sweep()))
    assert ranking.chosen is not None
    trial = ranking.chosen.judged[0]
    assert found["auroc"].mean() == pytest.approx(trial.outcome["test_auroc"])
    scaled = scaled_rows(store.rows, trial, ranking.rule.scaling)
    expected = evaluate(*scaled.tensors(), ["nll"], scaled.decisions)["nll"]
    assert found["nll_scaled"].mean() == pytest.approx(expected)


def test_the_classifier_gives_a_probability_for_each_label(store: SweepStore) -> None:
    sweep = StoredSweep.read(store.name, store.storage)
    dataset = load_same_data(sweep)
    classifier = load_trained(sweep, dataset, store.load_records()[-1])
    assert classifier.classes == tuple(FINDINGS)
    probs = classifier.predict_proba(dataset.test.inputs.copy())
    assert probs.shape == (len(dataset.test), 3)
    assert ((probs > 0.5) == (dataset.test.labels == 1)).mean() > 0.8


@pytest.mark.slow
def test_the_exported_classifier_names_the_labels(
    store: SweepStore, folder: Path, tmp_path: Path
) -> None:
    made, _ = export_model("xray", store.storage, str(tmp_path / "model"))
    output = io.StringIO()
    assert predict(made, str(folder / "images" / "7.png"), output) == (1, ())
    head, row = csv.reader(io.StringIO(output.getvalue()))
    assert head == ["sample", "class", "confidence", "p(Even)", "p(Large)", "p(Round)"]
    first = dict(zip(head, row, strict=True))
    each = {name: float(first[f"p({name})"]) for name in FINDINGS}
    assert first["class"] == "|".join(name for name, p in each.items() if p > 0.5)
    assert float(first["confidence"]) == pytest.approx(min(max(p, 1 - p) for p in each.values()))


@pytest.mark.parametrize("form", ["csv", "parquet", "npz"])
def test_columns_and_arrays_of_several_labels(tmp_path: Path, form: str) -> None:
    draw = np.random.default_rng(0)
    x, there = draw.normal(size=(80, 2)), draw.random((80, 3)) < 0.4
    frame = pd.DataFrame({"x": x[:, 0], "y": x[:, 1], "a": there[:, 0], "b": there[:, 1] * 1})
    path, options = tmp_path / f"a.{form}", {"labels": ["a", "b"]}
    if form == "npz":
        np.savez(path, x=x, y=there[:, :2])
        options = {}
    elif form == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    dataset = load_dataset(form, seed=0, train=path, test=path, **options)
    assert dataset.task.names == (("0", "1") if form == "npz" else ("a", "b"))
    assert dataset.input_shape == (2,)
    np.testing.assert_array_equal(dataset.test.labels, there[:, :2])


def test_arrays_and_frames_in_memory(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    x, there = draw.normal(size=(80, 2)), draw.random((80, 3)) < 0.4
    for samples in (x, pd.DataFrame(x, columns=["u", "v"])):
        sweep = make_sweep(dataset=Composer(str(tmp_path)).dataset((samples, there)))
        dataset = load_data(sweep)
        assert dataset.num_outputs == 3
        assert dataset.train.labels.shape[1] == 3


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("x,a,b\n1,0,1\n2,1,2\n", {"labels": ["a", "b"]}, "row 1 .*: b is 2; allowed: 0 and 1"),
        ("x,a,b\n1,0,1\n2,,0\n", {"labels": ["a", "b"]}, r"row 1 \(from 0\): a is missing; allo"),
        ("x,a,b\n1,0,1\n2,0,0\n", {"labels": ["a", "b"]}, "a is the same in all training samples"),
        ("x,a\n1,0\n2,1\n", {"labels": ["a"]}, r"several labels are \(N, L\) truth values, L of"),
        ("x,a,b\n1,0,1\n2,1,0\n", {"labels": ["a", "c"]}, r"no column 'c' \(option labels\)"),
        ("x,a\n1,2\n2,3\n", {"label": "a", "separator": "|"}, "not words that separator='|' could"),
        ("x,a\n1,2\n", {"soft_labels": ["a"], "labels": ["a"]}, "leave labels and separator"),
    ],
)
def test_labels_that_cannot_be_used_are_named(
    tmp_path: Path, content: str, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ValueError, match=message.replace("'|'", r"'\|'")):
        load_dataset("csv", seed=0, train=tmp_path / "a.csv", **options)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"losses": ["focal", "mmce", "logitnorm"]},
            r"^losses: mmce, logitnorm is not for data with several labels of each sample; "
            "allowed: ada_dual_focal, adafocal, brier, .*and your own with several_labels = True$",
        ),
        (
            {"evaluation": {"ood": ["digits"]}},
            r"^evaluation is for data with one class of each sample, and these have several lab",
        ),
        (
            {"encoder": {"loss": "supcon", "training": {"epochs": 1}}},
            r"encoder.loss: supcon is not for data with several labels",
        ),
    ],
)
def test_what_is_not_for_several_labels_is_refused(
    folder: Path, sections: dict[str, Any], message: str
) -> None:
    sweep = sweep_of(folder, **sections)
    with pytest.raises(UserError, match=message):
        fit_to_data(sweep, load_dataset("csv", seed=0, **sweep.dataset.options))


@pytest.mark.slow
def test_heads_on_a_frozen_encoder(folder: Path) -> None:
    encoder = {"loss": {"name": "cross_entropy"}, "training": {"epochs": 2, "batch_size": 64}}
    sweep = sweep_of(folder, "frozen", encoder=encoder)
    fit_to_data(sweep, load_data(sweep))
    store = train_sweep(folder / "frozen", sweep, [("focal", 2.0)])
    assert store.load_records()[-1].outcome["test_auroc"] > 0.6
