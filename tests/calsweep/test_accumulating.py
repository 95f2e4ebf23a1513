"""The metrics as torchmetrics classes."""

import copy
import pickle
import sys
from pathlib import Path

import pytest

import calsweep
from calsweep.metrics import class_names
from tests.calsweep import accumulating_worker
from tests.calsweep.accumulating_worker import predictions
from tests.harness.workers import run_workers
from trainables.metrics import METRICS, evaluate, expected_calibration_error

CLASSES = class_names()


def test_each_metric_has_a_class() -> None:
    assert list(CLASSES.values()) == list(METRICS)
    assert {"ECE", "AdaptiveECE", "NLL", "FailureAUROC"} <= set(dir(calsweep.metrics))
    with pytest.raises(AttributeError, match="no attribute 'ECEE'"):
        calsweep.metrics.ECEE  # noqa: B018


@pytest.mark.parametrize("name", CLASSES)
def test_the_value_of_batches_is_that_of_the_function_of_all(name: str) -> None:
    logits, labels = predictions()
    metric = getattr(calsweep.metrics, name)()
    for batch in zip(logits.split(64), labels.split(64), strict=True):
        metric.update(*batch)
    expected = evaluate(logits, labels, [CLASSES[name]])[CLASSES[name]]
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)
    assert metric.higher_is_better == METRICS[CLASSES[name]].higher_is_better
    metric.reset()
    metric.update(logits[:50], labels[:50])
    again = evaluate(logits[:50], labels[:50], [CLASSES[name]])[CLASSES[name]]
    assert metric.compute().item() == pytest.approx(again, rel=1e-6)


def test_it_is_called_on_a_batch_and_takes_options() -> None:
    from torchmetrics import Metric

    logits, labels = predictions()
    metric = calsweep.metrics.ECE(num_bins=5)
    found = metric(logits, labels)
    expected = expected_calibration_error(logits.softmax(1), labels, num_bins=5)
    assert found.item() == pytest.approx(expected, rel=1e-6)
    assert isinstance(metric, Metric)
    assert "num_bins" in str(calsweep.metrics.ECE.__signature__)
    with pytest.raises(TypeError, match=r"ECE: .*`bins`.*; allowed: num_bins, and the options"):
        calsweep.metrics.ECE(bins=5)
    with pytest.raises(TypeError, match="allowed: num_bins, and"):
        calsweep.metrics.ClasswiseAdaptiveECE(binning="equal_width")
    with pytest.raises(ValueError, match="num_bins must be an integer of at least 1, got 0"):
        calsweep.metrics.ECE(num_bins=0)


def test_what_it_is_given_is_checked() -> None:
    logits, labels = predictions()
    metric = calsweep.metrics.ECE()
    metric.update(logits, labels)
    with pytest.raises(ValueError, match="logits have 3 classes, earlier batches 5"):
        metric.update(logits[:, :3], labels.clamp(max=2))
    with pytest.raises(ValueError, match="labels"):
        metric.update(logits, labels[:4])


def test_it_keeps_no_graph_and_is_copied_and_pickled() -> None:
    logits, labels = predictions()
    metric = calsweep.metrics.ECE()
    metric.update(logits.requires_grad_(), labels)
    assert not metric.logits[0].requires_grad
    for again in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert again.compute() == metric.compute()


def test_a_collection_keeps_the_predictions_once() -> None:
    from torchmetrics import MetricCollection

    logits, labels = predictions()
    metrics = MetricCollection([getattr(calsweep.metrics, name)() for name in CLASSES])
    metrics.update(logits, labels)
    metrics.update(logits, labels)
    assert [sorted(group) for group in metrics.compute_groups.values()] == [sorted(CLASSES)]
    values = metrics.compute()
    assert values["ECE"].item() == pytest.approx(
        evaluate(logits.repeat(2, 1), labels.repeat(2), ["ece"])["ece"]
    )


@pytest.mark.slow
def test_two_workers_one_of_them_without_samples(tmp_path: Path) -> None:
    expected = evaluate(*predictions())
    for values, refused in run_workers(Path(accumulating_worker.__file__), tmp_path).values():
        for found in values:
            assert {CLASSES[name]: value.item() for name, value in found.items()} == pytest.approx(
                expected, rel=1e-6
            )
        assert refused == "workers have logits of [3, 4] classes; they must be the same"


def test_without_torchmetrics_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "calsweep.accumulating")
    assert calsweep.metrics.evaluate(*predictions())
    with pytest.raises(ImportError) as caught:
        calsweep.metrics.ECE  # noqa: B018
    assert str(caught.value) == (
        "calsweep.metrics.ECE needs torchmetrics, which is not installed here; install it by: "
        'pip install "calsweep[torchmetrics]"'
    )
