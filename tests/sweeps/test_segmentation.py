"""Segmentation with PASCAL VOC files: from files to the export."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import calsweep
from sweeps.errors import UserError
from sweeps.evidence.comparison import compare
from sweeps.planning.data import load_data
from sweeps.planning.data_fit import fit_to_data
from sweeps.planning.data_preview import data_facts
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.delivery.exporting import export_model, reads_files
from sweeps.service.delivery.loading import load_same_data, load_trained
from sweeps.service.delivery.predicting import predict
from sweeps.service.reading.mistakes import keep_mistakes, load_mistakes
from sweeps.service.reading.stored import StoredSweep
from sweeps.service.reading.writing import write_report
from sweeps.store.sweep_store import SweepStore
from sweeps.sweep_file.schema import SweepFile
from tests.builders import make_sweep
from tests.harness.trained import train_sweep
from tests.harness.voc import CLASSES, write_voc
from trainables import metrics as M
from trainables.data.core.tasks import IGNORED

PIXELS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_voc(tmp_path_factory.mktemp("voc") / "scenes", train=80, val=24)


def sweep_of(folder: Path, **sections: Any) -> SweepFile:
    known: dict[str, Any] = {
        "dataset": {
            "name": "voc",
            "root": str(folder),
            "classes": list(CLASSES),
            "image_size": 32,
            "pixels": PIXELS,
            "validation": 24,
        },
        "model": {"name": "small_fcn", "width": 8},
        "losses": ["focal"],
        "training": {"epochs": 6, "batch_size": 8, "optimizer": "adam", "lr": 0.02},
        "search": {"guard": 1.0},
        "selection": {"finalists": 0, "seeds": 0},
    }
    return make_sweep("scenes", **{**known, **sections})


@pytest.fixture(scope="module")
def store(folder: Path) -> SweepStore:
    return train_sweep(folder / "store", sweep_of(folder), [("focal", 2.0)])


def test_check_says_what_the_data_are(folder: Path) -> None:
    sweep = sweep_of(folder, model="default")
    dataset = load_data(sweep)
    fitted = fit_to_data(sweep, dataset)
    assert fitted.model.name == "small_fcn"
    assert fitted.training.eval_batch_size == 8  # outputs per pixel need the memory
    facts = data_facts(Plan(fitted), dataset)
    assert facts["data"] == (
        "56 training, 24 validation, 24 test images, each pixel of one of 3 classes; judged by 40 "
        "pixels of each"
    )
    assert "can detect" not in facts


def test_trials_learn_pixels_and_judge_them_by_image(store: SweepStore) -> None:
    dataset = load_data(store.load_sweep())
    places = dataset.task.drawn(dataset.test.labels)
    assert places is not None
    expected = np.take_along_axis(dataset.test.labels.reshape(24, -1), places, 1)
    for record in store.load_records():
        outcome = record.outcome
        rows = store.rows("test", record.number)
        assert (rows.decisions, rows.cluster_size) == (1, PIXELS)
        logits, labels = rows.tensors()
        assert labels.tolist() == expected.ravel().tolist()
        assert outcome["test_error"] < 0.15
        probs = logits.double().softmax(1)
        found = M.interval("nll", probs, labels, clusters=rows.clusters())
        assert (outcome["test_nll_low"], outcome["test_nll_high"]) == pytest.approx(found[1:])
        assert outcome["test_ece_low"] <= outcome["test_ece_high"]
        assert "test_auroc" in outcome
        assert outcome["temperature"] > 0


def test_the_choice_is_compared_and_reported(store: SweepStore) -> None:
    ranking = Ranking(store.load_records(), rule_of(store.load_sweep()))
    found = compare(ranking, store.rows)
    assert found
    assert all(each.low <= each.value <= each.high for each in found)
    dataset = load_data(store.load_sweep())
    keep_mistakes(store, ranking.records[0], dataset, ranking.rule.scaling)
    shown = load_mistakes(store)
    assert shown.keys() <= set(range(24))
    assert all(text.startswith("data:image/png") for text in shown.values())
    path = Path(store.storage) / "a.html"
    page = Path(write_report("scenes", store.storage, str(path))).read_text()
    assert "24 samples, 40 pixels of each" in page
    assert "upright lines" not in page
    assert 'class="band"' not in page
    figure = calsweep.load(store.storage, "scenes").plot_reliability()
    assert len(figure.axes[0].lines) == 1  # the diagonal


def test_the_classifier_gives_probabilities_of_each_pixel(store: SweepStore) -> None:
    sweep = StoredSweep.read(store.name, store.storage)
    dataset = load_same_data(sweep)
    classifier = load_trained(sweep, dataset, store.load_records()[-1])
    probs = classifier.predict_proba(dataset.test.inputs.copy())
    assert probs.shape == (24, 3, 32, 32)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-5)
    counted = dataset.test.labels != IGNORED
    assert (probs.argmax(1) == dataset.test.labels)[counted].mean() > 0.85


@pytest.mark.slow
def test_what_is_exported_gives_pixels_which_make_no_lines(
    store: SweepStore, folder: Path, tmp_path: Path
) -> None:
    made, _ = export_model("scenes", store.storage, str(tmp_path / "model"))
    assert not reads_files(made)
    program = torch.export.load(Path(made) / "model.pt2").module()
    dataset = load_data(store.load_sweep())
    found = program(torch.from_numpy(dataset.test.inputs[:3].copy()))
    assert found.shape == (3, 3, 32, 32)
    assert "(N, 3, 32, 32) -> float32, (N, 3, 32, 32)" in (Path(made) / "README.md").read_text()
    with pytest.raises(UserError, match=r"gives probabilities of each pixel, \(N, 3, height, wid"):
        predict(made, str(folder / "JPEGImages"), io.StringIO())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"losses": ["focal", "mmce", "kde_xe"]},
            r"^losses: mmce, kde_xe is not for data with a class of each pixel; allowed: "
            r"ada_dual_focal, .*and your own with each_pixel = True$",
        ),
        (
            {"model": "resnet18_cifar"},
            r"^model: model 'resnet18_cifar' takes samples that are each of a class, while the "
            r"data are images of 3 x 32 x 32 .* with a class of each pixel; their default model "
            r"is small_fcn$",
        ),
        (
            {"evaluation": {"ood": ["digits"]}},
            r"^evaluation is for data with one class of each sample, and these have a class of ",
        ),
        (
            {"encoder": {"loss": "cross_entropy", "training": {"epochs": 1}}},
            r"^encoder is for data with one class of each sample",
        ),
    ],
)
def test_what_is_not_for_pixels_is_refused(
    folder: Path, sections: dict[str, Any], message: str
) -> None:
    sweep = sweep_of(folder, **sections)
    evaluated = sections.get("evaluation")
    dataset = load_data(sweep_of(folder) if evaluated else sweep)
    with pytest.raises(UserError, match=message):
        fit_to_data(sweep, dataset)


def test_a_model_of_pixels_is_for_pixels_alone() -> None:
    sweep = make_sweep(model="deeplabv3_resnet50")
    with pytest.raises(UserError, match="takes images with a class of each pixel, while the data "):
        fit_to_data(sweep, load_data(sweep))
