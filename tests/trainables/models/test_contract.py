"""What all kinds of model keep: one sample, two samples, training, several workers, export."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.harness.workers import run_workers
from tests.trainables.models.contract import NAMES, subject
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.exported import export_program, load_program

DECIDES_BY_DATA = "huggingface/longformer"  # whether a token has global attention
each_model = pytest.mark.parametrize("name", NAMES)


@each_model
def test_one_sample_two_samples_and_training_mode(name: str) -> None:
    dataset, model = subject(name)
    inputs = dataset.samples.prepare(torch.from_numpy(dataset.train.rows(slice(2))))
    with torch.no_grad():
        two = model.eval()(inputs)
        torch.testing.assert_close(model(inputs[:1]), two[:1], rtol=1e-4, atol=1e-5)
    logits, features = model.train()(inputs, return_features=True)
    assert (two.shape, logits.shape) == ((2, 2), (2, 2))
    assert features.shape == (2, model.head.in_features)


@pytest.mark.slow
def test_a_model_that_decides_by_its_data_is_not_exported() -> None:
    dataset, model = subject(DECIDES_BY_DATA)
    classifier = CalibratedClassifier(model, dataset.samples, 1.5, dataset.classes)
    with pytest.raises(ValueError, match="cannot be exported: Could not guard on data-dependent"):
        export_program(classifier, dataset.train.rows(slice(2)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != DECIDES_BY_DATA])
def test_the_exported_program_gives_the_same_for_any_number_of_samples(name: str) -> None:
    dataset, model = subject(name)
    classifier = CalibratedClassifier(model, dataset.samples, 1.5, dataset.classes)
    program = load_program(export_program(classifier, dataset.train.rows(slice(2)))).module()
    for count in (1, 2, 5):
        stored = torch.from_numpy(dataset.train.rows(slice(count)).copy())
        with torch.no_grad():
            expected = classifier(stored)
        torch.testing.assert_close(program(stored), expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def by_workers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    script = Path(__file__).with_name("contract_worker.py")
    return run_workers(script, tmp_path_factory.mktemp("workers"))


@pytest.mark.slow
@each_model
def test_two_workers_train_the_same_weights(by_workers: dict[str, Any], name: str) -> None:
    first, second = by_workers["worker0"][name], by_workers["worker1"][name]
    assert first["error"] is None
    assert first["changed"]
    assert first["weights"].keys() == second["weights"].keys()
    for key, value in first["weights"].items():
        assert torch.equal(value, second["weights"][key]), key


def test_a_program_can_be_exported_although_the_model_counts_rows() -> None:
    dataset, model = subject("len(x)")
    classifier = CalibratedClassifier(model, dataset.samples, 1.0, dataset.classes)
    program = load_program(export_program(classifier, dataset.train.rows(slice(2)))).module()
    assert program(torch.from_numpy(dataset.train.rows(slice(5)).copy())).shape == (5, 2)
