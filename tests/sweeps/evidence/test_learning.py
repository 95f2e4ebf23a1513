"""If nothing was learned, every view of the result starts with a warning."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import calsweep
from sweeps.cli import app
from sweeps.evidence.learning import FirstEpochs, constant_classifier, learning_warnings
from sweeps.results.evidence import Evidence
from sweeps.results.explanation import result_of
from sweeps.results.reference import ReferenceResult
from sweeps.search.plan import Plan
from sweeps.search.record import TrialRecord
from sweeps.service.reading.writing import write_report
from sweeps.sweep_file.sections.training import TrainableSection
from sweeps.tracking.run_content import description
from tests.builders import Noted, baseline, make_sweep, new_store, ranked, trial, write_predictions
from trainables.data import load_dataset
from trainables.files.rows import ReadRows, Rows
from trainables.files.storage import Folder

LABELS = torch.arange(20).repeat(10)
SGD = Plan(make_sweep(training={"epochs": 5, "optimizer": "sgd", "lr": 0.1}))


def predictions(folder: Path, labels: torch.Tensor = LABELS, signal: float = 0.0) -> ReadRows:
    """Of any trial: class frequencies with random noise, and a signal at the label's logit."""
    place = Folder(str(folder))
    logits = (torch.bincount(labels, minlength=20) + 1e-9).log().repeat(len(labels), 1)
    logits += 0.1 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))
    logits[torch.arange(len(labels)), labels] += signal
    write_predictions(place, "validation", (logits, labels))
    return lambda split, number: Rows.read(place, split)


def curve(*losses: float) -> list[dict[str, float]]:
    """Reports of a trial at chance level, with these training losses."""
    last = {"val_error": 0.92, "val_ece": 0.015, "val_nll_scaled": 2.9, "temperature": 1.0}
    return [{"epoch": i + 1, "train_loss": loss, **last} for i, loss in enumerate(losses)]


def test_the_constant_classifier_knows_how_frequent_classes_are() -> None:
    found = constant_classifier(np.array([0, 0, 0, 1]))
    assert found.error == 0.25
    assert found.nll == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    two_labels = constant_classifier(np.array([0, 0, 0, 1, 0, 0, 0, 1]), decisions=2)
    assert two_labels.error == 0.25  # 0 for the first label, .5 for the second


@pytest.mark.parametrize(
    ("losses", "suggestion"),
    [
        ([2.99, 2.9, 2.7], "was still falling, train for more than 5 epochs (training.epochs)"),
        (
            [2.99, 2.98, 2.98],
            "another learning rate (training.lr, now 0.1) or training.optimizer =",
        ),
        ([2.9, 2.95, 2.98], "try a lower learning rate (training.lr, now 0.1)"),
        ([900.0, 40.0, 5.0], "try a lower learning rate (training.lr, now 0.1)"),
        ([2.99, 0.1, 0.1, 0.1], "has only memorised its training samples"),
        ([2.99], "It was trained for 1 epoch: try more than 5 epochs"),
    ],
)
def test_the_warning_suggests_what_to_change(
    tmp_path: Path, losses: list[float], suggestion: str
) -> None:
    records = [baseline(history=curve(*losses)), trial(1, val_error=0.91, val_nll_scaled=2.9)]
    (warning,) = learning_warnings(ranked(records), predictions(tmp_path), SGD)
    assert warning.startswith("Nothing was learned, so do not use this result")
    assert "always predicting the most frequent class has 95.0%" in warning
    assert suggestion in warning


def test_values_in_use_are_not_suggested(tmp_path: Path) -> None:
    adam = Plan(make_sweep(training={"epochs": 5, "optimizer": "adam", "lr": 0.001}))
    records = [baseline(history=curve(2.99, 2.98, 2.98))]
    (warning,) = learning_warnings(ranked(records), predictions(tmp_path), adam)
    assert "try another learning rate (training.lr, now 0.001), and train for more than" in warning
    own = TrainableSection(name="my_loops:train")
    loop = Plan(SGD.sweep.model_copy(update={"trainable": own}))
    (warning,) = learning_warnings(ranked(records), predictions(tmp_path), loop)
    assert "try another learning rate in your loop, and train" in warning
    assert "training.lr" not in warning


def test_what_has_learned_gets_no_warning(tmp_path: Path) -> None:
    records = [baseline(val_error=0.5), trial(1, val_error=0.5)]
    assert learning_warnings(ranked(records), predictions(tmp_path, signal=2.0), SGD) == []
    assert learning_warnings(ranked([]), predictions(tmp_path), SGD) == []


def test_a_noisy_table_is_learned_though_its_error_is_high(tmp_path: Path) -> None:
    """The error is close to the most frequent class's, but the NLL is lower by more than chance."""
    labels = (torch.arange(2000) % 100 < 41).long()
    records = [baseline(val_error=0.405, val_nll_scaled=0.66)]
    read = predictions(tmp_path, labels, signal=0.3)
    assert learning_warnings(ranked(records), read, SGD) == []


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (0.2, "has an error of 20.0%. It was trained for 1 epoch: try"),
        (0.39, "has an error of 39.0%, which is not clearly better. So the inputs may say little"),
    ],
)
def test_training_is_suggested_if_a_reference_is_better(
    tmp_path: Path, error: float, advice: str
) -> None:
    records = [baseline(val_error=0.405, test_error=0.41)]
    tree = ReferenceResult("gradient boosting", {"test_error": error}, 1000)
    read = predictions(tmp_path, (torch.arange(2000) % 100 < 41).long())
    (warning,) = learning_warnings(ranked(records), read, SGD, [tree])
    assert f"On the test split, gradient boosting {advice}" in warning
    assert ("training.epochs" in warning) == (error < 0.3)


def test_references_of_a_rare_class_are_compared_by_their_nll(tmp_path: Path) -> None:
    """All errors are 3 %, but logistic regression finds the events."""
    rare = (torch.arange(1000) % 33 == 0).long()
    outcome = {"test_error": 0.031, "test_nll": 0.105}
    logistic = ReferenceResult("logistic regression", outcome, 1000)
    read = predictions(tmp_path, rare, signal=0.05)
    (warning,) = learning_warnings(ranked([baseline(val_error=0.031)]), read, SGD, [logistic])
    assert "logistic regression has an NLL of 0.1050; the class frequencies have 0.13" in warning
    assert "So the inputs say something about the labels" in warning
    assert "may say little" not in warning
    assert warning.startswith("It is not shown")
    assert "The rarest class has 31 samples in the validation split: more samples" in warning


def test_a_gain_that_may_be_chance_is_not_called_nothing(tmp_path: Path) -> None:
    labels = (torch.arange(100) % 100 < 41).long()
    read = predictions(tmp_path, labels, signal=0.06)
    (warning,) = learning_warnings(ranked([baseline(val_error=0.405)]), read, SGD)
    assert warning.startswith("It is not shown that cross_entropy learned anything, so do not rely")
    assert re.search(r"class frequencies is -0\.\d+ \[-0\.\d+, \+0\.\d+\]", warning)


def test_a_model_of_a_rare_class_is_judged_by_its_probabilities(tmp_path: Path) -> None:
    rare = (torch.arange(1000) % 20 == 0).long()
    records = [baseline(val_error=0.05)]
    assert learning_warnings(ranked(records), predictions(tmp_path, rare, 1.0), SGD) == []
    assert len(learning_warnings(ranked(records), predictions(tmp_path, rare), SGD)) == 1


def test_it_follows_the_recommendation_everywhere(tmp_path: Path) -> None:
    sweep = make_sweep()
    records = [baseline(history=curve(2.99, 2.98)), trial(1, val_error=0.92)]
    store = new_store(tmp_path, sweep, records)
    warnings = learning_warnings(ranked(records), predictions(tmp_path / "predictions"), SGD)
    found = result_of(ranked(records), Plan(sweep), Evidence(warnings=tuple(warnings)))
    store.save_answer(found.to_json())
    first, said = "Recommended: cross-entropy", "Warning: Nothing was learned"

    recommended, warning, *_ = description(Plan(sweep), found).split("\n\n")
    assert recommended.startswith(f"**{first}")
    assert warning.startswith(said.replace("Warning:", "**Warning:**"))
    result = calsweep.load(tmp_path, sweep.name)
    assert result.warnings == tuple(warnings)
    recommended, warning, *_ = repr(result).split("\n\n")
    assert recommended.startswith(f"★ {first}") and warning.startswith(said)
    shown = CliRunner().invoke(app, ["show", sweep.name, "--storage", str(tmp_path)])
    assert shown.stdout.strip().startswith(f"★ {first}")
    assert shown.stdout.index(said) < shown.stdout.index("loss and")
    page = Path(write_report(sweep.name, str(tmp_path), str(tmp_path / "page.html"))).read_text()
    in_box = said.replace("Warning:", "<strong>Warning:</strong>")
    assert page.index(f'<p class="advice">★ {first}') < page.index(in_box)


def first_epochs_of(record: TrialRecord) -> list[str]:
    """What is reported while the baseline of a sweep of digits trains."""
    notices: list[str] = []
    listener = FirstEpochs(load_dataset("digits", seed=0), Noted(notices), SGD)
    listener.take(trial(1, history=record.history))  # another trial says nothing
    for epoch in range(1, len(record.history) + 1):
        listener.take(replace(record, history=record.history[:epoch]))
    return notices


def test_a_learning_rate_that_does_not_train_is_reported_in_the_first_epochs() -> None:
    at_chance = [
        {"epoch": n, "train_loss": loss, "val_error": 0.9, "val_nll": 2.31}
        for n, loss in enumerate([90.0, 30.0, 9.0, 5.0, 2.3], 1)
    ]
    (notice,) = first_epochs_of(baseline(history=at_chance))
    assert notice.startswith("After 3 epochs the baseline has learned nothing")
    assert "a lower learning rate (training.lr, now 0.1)" in notice
    learning = [*at_chance[:2], {**at_chance[2], "val_error": 0.7, "val_nll": 2.0}]
    assert first_epochs_of(baseline(history=learning)) == []


def test_a_baseline_that_diverges_is_reported() -> None:
    reason = "diverged: training loss is nan in epoch 1"
    failed = baseline(history=[{"epoch": 1}], state="failed", reason=reason)
    (notice,) = first_epochs_of(replace(failed, diverged=True))
    assert reason in notice
    assert "Try a lower learning rate (training.lr, now 0.1)" in notice
