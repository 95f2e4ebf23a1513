"""If nothing was learned, every view of the result starts with a warning."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import calsweep
from sweeps.cli import app
from sweeps.evidence.learning import FirstEpochs, constant_classifier, learning_warnings
from sweeps.results.explanation import answer
from sweeps.results.judgement import Judgement
from sweeps.search.record import TrialRecord
from sweeps.service.reading import write_report
from sweeps.tracking.run_content import description
from tests.builders import Noted, baseline, make_sweep, new_store, ranked, trial
from trainables.data import load_dataset
from trainables.files.storage import Folder
from trainables.trials.outcome import write_predictions

LABELS = torch.arange(20).repeat(10)


def predictions(folder: Path, labels: torch.Tensor = LABELS) -> Callable[[int], bytes]:
    """Predictions of any trial, with the labels of the validation split."""
    place = Folder(str(folder))
    write_predictions(place, "validation", (torch.zeros(len(labels), 20), labels))
    return lambda number: place.read("predictions_validation.parquet")


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
        ([2.99, 2.9, 2.7], "was still falling, train longer (training.epochs)"),
        ([2.99, 2.98, 2.98], "change the learning rate (training.lr) or the optimizer"),
        ([2.9, 2.95, 2.98], "lower the learning rate"),
        ([900.0, 40.0, 5.0], "lower the learning rate"),
        ([2.99, 0.1, 0.1, 0.1], "has only memorised its training samples"),
        ([2.99], "It was trained for 1 epoch: try more"),
    ],
)
def test_the_warning_suggests_what_to_change(
    tmp_path: Path, losses: list[float], suggestion: str
) -> None:
    records = [baseline(history=curve(*losses)), trial(1, val_error=0.91, val_nll_scaled=2.9)]
    (warning,) = learning_warnings(ranked(records), predictions(tmp_path))
    assert warning.startswith("Nothing was learned, so do not use this result")
    assert "always predicting the most frequent class has 95.0%" in warning
    assert suggestion in warning


def test_what_has_learned_gets_no_warning(tmp_path: Path) -> None:
    records = [baseline(val_error=0.5), trial(1, val_error=0.5)]
    assert learning_warnings(ranked(records), predictions(tmp_path)) == []
    assert learning_warnings(ranked([]), predictions(tmp_path)) == []


def test_a_model_of_a_rare_class_is_judged_by_its_probabilities_too(tmp_path: Path) -> None:
    rare = (torch.arange(1000) % 20 == 0).long()
    read = predictions(tmp_path, rare)
    nll = constant_classifier(rare.numpy()).nll
    informed = [baseline(val_error=0.05, val_nll_scaled=0.7 * nll)]
    assert learning_warnings(ranked(informed), read) == []
    constant = [baseline(val_error=0.05, val_nll_scaled=nll)]
    assert len(learning_warnings(ranked(constant), read)) == 1


def test_the_result_starts_with_it_everywhere(
    tmp_path: Path,
) -> None:
    sweep = make_sweep()
    records = [baseline(history=curve(2.99, 2.98)), trial(1, val_error=0.92)]
    store = new_store(tmp_path, sweep, records)
    warnings = learning_warnings(ranked(records), predictions(tmp_path / "predictions"))
    found = answer(ranked(records), sweep, Judgement(warnings=tuple(warnings)))
    store.save_answer(found)
    said = "Nothing was learned"

    assert description(sweep, found).startswith(f"**Warning:** {said}")
    result = calsweep.load(tmp_path, sweep.name)
    assert result.warnings == tuple(warnings)
    assert repr(result).startswith(f"Warning: {said}")
    shown = CliRunner().invoke(app, ["show", sweep.name, "--storage", str(tmp_path)])
    assert shown.stdout.strip().startswith(f"Warning: {said}")
    page = Path(write_report(sweep.name, str(tmp_path), str(tmp_path / "page.html"))).read_text()
    assert f'<p class="advice">{said}' in page
    assert "has the lowest validation" not in page


def first_epochs_of(record: TrialRecord) -> list[str]:
    """What is reported while the baseline of a sweep of digits trains."""
    notices: list[str] = []
    listener = FirstEpochs(load_dataset("digits", seed=0), Noted(notices))
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
    assert "lower the learning rate (training.lr)" in notice
    learning = [*at_chance[:2], {**at_chance[2], "val_error": 0.7, "val_nll": 2.0}]
    assert first_epochs_of(baseline(history=learning)) == []


def test_a_baseline_that_diverges_is_reported() -> None:
    reason = "diverged: training loss is nan in epoch 1"
    (notice,) = first_epochs_of(baseline(history=[{"epoch": 1}], state="failed", reason=reason))
    assert reason in notice
    assert "Lower the learning rate (training.lr)" in notice
