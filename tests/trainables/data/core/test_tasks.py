"""Multi-label data: decisions, their losses, metrics and differences."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as reference
from torch import Tensor

from trainables import metrics as M
from trainables.data.core.base import Dataset, Split
from trainables.data.core.tasks import OneClass, SeveralLabels, each_label, strata
from trainables.data.kinds.arrays import Arrays
from trainables.files.rows import Rows
from trainables.losses import available_losses, loss_class, make_loss
from trainables.trials.outcome import Extent, evaluate, summarise

TASK = SeveralLabels(("a", "b", "c"))
COUNT = 400


@pytest.fixture
def drawn() -> tuple[Tensor, Tensor]:
    """Logits (N, 3) and labels (N, 3); the second label is rare."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(COUNT, 3, generator=draw, dtype=torch.float64) * 2
    logits[:, 1] -= 3
    chance = torch.rand(COUNT, 3, generator=draw, dtype=torch.float64)
    return logits, (chance < (0.7 * logits).sigmoid()).long()


FORMULAS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": F.binary_cross_entropy_with_logits,
    "brier": lambda z, y: 2 * (z.sigmoid() - y).square().mean(),
    # Lin et al. 2017, as in torchvision.ops.sigmoid_focal_loss.
    "focal": lambda z, y: (
        F.binary_cross_entropy_with_logits(z, y, reduction="none")
        * (1 - torch.where(y > 0, z.sigmoid(), 1 - z.sigmoid())) ** 3
    ).mean(),
    "label_smoothing": lambda z, y: F.binary_cross_entropy_with_logits(z, 0.95 * y + 0.025),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_losses_of_decisions_are_those_of_sigmoids(name: str, drawn: tuple[Tensor, Tensor]) -> None:
    logits, labels = drawn
    logits.requires_grad_()
    value = make_loss(name, 2)(*TASK.decisions_of(logits, labels))
    expected = FORMULAS[name](logits, labels.double())
    torch.testing.assert_close(value, expected)
    found, wanted = (torch.autograd.grad(each, logits)[0] for each in (value, expected))
    torch.testing.assert_close(found, wanted)


def test_the_losses_that_are_for_several_labels() -> None:
    able = {name for name in available_losses() if TASK.accepts(loss_class(name))}
    assert {"cross_entropy", "focal", "dual_focal", "adafocal", "mbls", "cals_alm"} <= able
    # The norm of (0, z) is |z|, so normalisation leaves only the sign.
    assert not {"logitnorm", "mixup", "mmce", "mdca", "r_aurc", "crl", "aucm", "supcon"} & able
    assert all(OneClass().accepts(loss_class(name)) for name in available_losses())


@pytest.mark.parametrize("name", [n for n in available_losses() if TASK.accepts(loss_class(n))])
def test_losses_train_each_label(name: str, drawn: tuple[Tensor, Tensor]) -> None:
    """A gradient step moves the logits of every label towards its frequency."""
    _, labels = drawn
    logits = torch.zeros(COUNT, 3, dtype=torch.float64)
    logits += 0.1
    logits.requires_grad_()
    loss = make_loss(name, 2).double()
    (gradient,) = torch.autograd.grad(loss(*TASK.decisions_of(logits, labels)), logits)
    assert ((gradient < 0) == (labels == 1)).all()


def test_metrics_are_means_over_labels(drawn: tuple[Tensor, Tensor]) -> None:
    logits, labels = drawn
    found = evaluate(*TASK.decisions_of(logits, labels), decisions=3)
    probs, truth = logits.sigmoid().numpy(), labels.numpy()
    assert found["auroc"] == pytest.approx(reference.roc_auc_score(truth, probs))
    assert found["error"] == pytest.approx(reference.hamming_loss(truth, probs > 0.5))
    losses = [reference.log_loss(truth[:, k], probs[:, k]) for k in range(3)]
    assert found["nll"] == pytest.approx(np.mean(losses))
    squares = [reference.brier_score_loss(truth[:, k], probs[:, k]) for k in range(3)]
    assert found["brier"] == pytest.approx(2 * np.mean(squares))
    eces = [
        M.expected_calibration_error(
            torch.stack([1 - logits[:, k].sigmoid(), logits[:, k].sigmoid()], 1), labels[:, k]
        )
        for k in range(3)
    ]
    assert found["ece"] == pytest.approx(np.mean(eces))
    assert found["accuracy"] == 1 - found["error"]


def test_an_absent_label_has_no_auroc(drawn: tuple[Tensor, Tensor]) -> None:
    logits, labels = drawn
    labels[:, 1] = 0
    found = evaluate(*TASK.decisions_of(logits, labels), ["auroc"], decisions=3)
    expected = reference.roc_auc_score(labels[:, [0, 2]], logits[:, [0, 2]])
    assert found["auroc"] == pytest.approx(expected)


def repeated(array: Tensor) -> Tensor:
    """Three identical decisions."""
    return array.repeat_interleave(3, 0)


def test_identical_labels_have_the_interval_of_one(drawn: tuple[Tensor, Tensor]) -> None:
    logits, labels = SeveralLabels(("a", "b")).decisions_of(*(each[:, :1] for each in drawn))
    names, own = ("ece", "nll", "auroc"), {"wrong": M.error_rate}
    extent = Extent(names, (*names, "wrong"), ("ece",), own)
    # Three times the rows weigh more against a prior.
    once = Rows(logits.numpy(), labels.numpy())
    alone = summarise(once, once, (logits, labels), extent, "nll_unpenalised")
    thrice = (repeated(logits), repeated(labels))
    rows = Rows(*(each.numpy() for each in thrice), decisions=3)
    found = summarise(rows, rows, thrice, extent, "nll_unpenalised")
    # Of clusters it is Student's t, of single samples the normal distribution.
    assert found == pytest.approx(alone, rel=1e-4, abs=2e-4)


@pytest.mark.parametrize("name", M.COMPARABLE)
def test_identical_labels_have_the_difference_of_one(
    name: str, drawn: tuple[Tensor, Tensor]
) -> None:
    logits, labels = SeveralLabels(("a", "b")).decisions_of(*(each[:, :1] for each in drawn))
    ours, theirs = (0.7 * logits).softmax(1), logits.softmax(1)
    alone = M.difference(name, [ours], [theirs], labels)
    found = M.difference(name, [repeated(ours)], [repeated(theirs)], repeated(labels), decisions=3)
    assert found.value == pytest.approx(alone.value)
    # Binned errors are simulated, with a different basis of the same noise.
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.004)


def test_differences_of_independent_labels_are_narrower(
    drawn: tuple[Tensor, Tensor],
) -> None:
    logits, labels = drawn
    decided, truth = TASK.decisions_of(logits, labels)
    ours, theirs = (0.7 * decided).softmax(1), decided.softmax(1)
    for name in ("ece", "nll"):
        found = M.difference(name, [ours], [theirs], truth, decisions=3)
        widths = []
        for k in range(3):
            each = M.difference(name, [ours[k::3]], [theirs[k::3]], truth[k::3])
            widths.append(each.high - each.low)
        assert found.high - found.low < np.mean(widths)
    with pytest.raises(ValueError, match="1200 rows are not 7 of each sample"):
        M.difference("nll", [ours], [theirs], truth, decisions=7)


def test_splits_keep_the_rarest_label_in_proportion() -> None:
    labels = np.zeros((40, 3), np.int64)
    labels[:20, 0], labels[:6, 1], labels[39, 2] = 1, 1, 1
    found, names = strata(labels, ("a", "b", "c"))
    assert names is None
    assert found.tolist() == [1] * 6 + [0] * 14 + [3] * 20  # c joins the largest stratum
    assert strata(labels[:, 0], ("no", "yes"))[1] == ("no", "yes")


def test_each_label_has_its_rows() -> None:
    logits, labels = torch.arange(6.0).view(2, 3), torch.arange(6).view(2, 3)
    decided, truth = TASK.decisions_of(logits, labels)
    assert [part.tolist() for part in each_label(truth, 3)] == [[0, 3], [1, 4], [2, 5]]
    assert torch.equal(TASK.as_outputs(decided.softmax(1)), TASK.probabilities(logits))


def test_labels_that_do_not_fit_are_refused() -> None:
    split = Split(np.zeros((4, 2), np.float32), np.zeros((4, 2), np.int64))
    samples = Arrays.unscaled((2,))
    with pytest.raises(ValueError, match=r"labels must be \(N,\), not of shape \(4, 2\)"):
        Dataset("a", split, split, split, ("no", "yes"), samples)
    with pytest.raises(ValueError, match=r"labels must be \(N, 3\), two labels or more, not of"):
        Dataset("a", split, split, split, ("no", "yes"), samples, task=TASK)
