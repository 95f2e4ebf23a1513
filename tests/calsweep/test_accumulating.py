"""The metrics as torchmetrics classes."""

import copy
import pickle
import sys
from pathlib import Path

import pytest
import torch

import calsweep
from calsweep.metrics import class_names
from tests.calsweep import accumulating_worker
from tests.calsweep.accumulating_worker import OF_ANY_CLASSES, predictions
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
    logits, labels = predictions(2 if METRICS[CLASSES[name]].two_classes else 5)
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


def test_it_keeps_a_copy() -> None:
    logits, labels = predictions()
    metric, expected = calsweep.metrics.ECE(), evaluate(logits, labels, ["ece"])["ece"]
    metric.update(logits, labels)
    logits /= 2.5
    labels.fill_(0)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-6)


def test_it_takes_the_keywords_of_torchmetrics() -> None:
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy

    logits, labels = predictions()
    theirs = MulticlassAccuracy(logits.shape[1], average="micro")
    metrics = MetricCollection({"acc": theirs, "error": calsweep.metrics.Error()})
    metrics.update(preds=logits, target=labels)
    values = metrics.compute()
    assert values["acc"] + values["error"] == pytest.approx(1)
    metrics.reset()
    first = metrics(preds=logits[:9], target=labels[:9])
    assert first["acc"] + first["error"] == pytest.approx(1)


def test_batches_may_be_empty() -> None:
    logits, labels = predictions()
    metric = calsweep.metrics.ECE()
    assert metric(logits[:0], labels[:0]).isnan()
    metric.update(logits, labels)
    metric.update(logits[:0], labels[:0])
    assert metric.compute().item() == pytest.approx(evaluate(logits, labels, ["ece"])["ece"])
    with pytest.raises(ValueError, match="labels must have shape"):
        metric.update(logits, labels[:0])


def test_probabilities_are_refused_unless_they_are_meant() -> None:
    logits, labels = predictions()
    probs = logits.softmax(1)
    for options in ({}, {"num_bins": 5}):
        metric = calsweep.metrics.ECE(**options)
        metric.update(probs, labels)
        with pytest.raises(ValueError, match="logits look like probabilities"):
            metric.compute()
        meant = calsweep.metrics.ECE(probabilities_as_logits=True, **options)
        meant.update(probs, labels)
        expected = expected_calibration_error(probs.softmax(1), labels, **options)
        assert meant.compute().item() == pytest.approx(expected, rel=1e-6)
    assert "probabilities_as_logits" in str(calsweep.metrics.ECE.__signature__)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_one_batch_of_probabilities_is_refused(dtype: torch.dtype) -> None:
    logits, labels = predictions()
    metric = calsweep.metrics.ECE()
    metric.update(logits[:64], labels[:64])
    metric.update(logits[64:128].softmax(1).to(dtype), labels[64:128])
    with pytest.raises(ValueError, match="logits of a batch look like probabilities: all are in"):
        metric.compute()
    metric.reset()
    one = torch.tensor([[0.25, 0.25, 0.5]])  # logits of one sample may sum to one
    metric.update(one, torch.tensor([0]))
    metric.update(3 * one, torch.tensor([0]))
    assert metric.compute().item() == pytest.approx(
        evaluate(torch.cat([one, 3 * one]), torch.tensor([0, 0]), ["ece"])["ece"]
    )


def test_it_draws_its_values() -> None:
    import matplotlib.pyplot as plt

    metric = calsweep.metrics.ECE()
    metric.update(*predictions())
    _, axes = metric.plot()
    assert axes.lines[0].get_ydata()[0] == pytest.approx(metric.compute().item())
    _, axes = metric.plot([metric.compute() for _ in range(3)])
    assert len(axes.lines[0].get_ydata()) == 3
    plt.close("all")


def test_a_collection_keeps_the_predictions_once() -> None:
    from torchmetrics import MetricCollection

    logits, labels = predictions()
    metrics = MetricCollection([getattr(calsweep.metrics, name)() for name in OF_ANY_CLASSES])
    metrics.update(logits, labels)
    metrics.update(logits, labels)
    assert [sorted(group) for group in metrics.compute_groups.values()] == [sorted(OF_ANY_CLASSES)]
    values = metrics.compute()
    assert values["ECE"].item() == pytest.approx(
        evaluate(logits.repeat(2, 1), labels.repeat(2), ["ece"])["ece"]
    )


@pytest.mark.slow
def test_two_workers_one_of_them_without_samples(tmp_path: Path) -> None:
    expected = evaluate(*predictions(), [CLASSES[name] for name in OF_ANY_CLASSES])
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
