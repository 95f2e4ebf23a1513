"""Warns if a classifier has learned nothing: it is calibrated but useless."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from sweeps.evidence.scaling import double_tensors
from sweeps.messages.formatting import counted
from sweeps.results.reference import best_reference, is_clearly_better
from sweeps.search.plan import Plan
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.setting import BASELINE_LOSS
from trainables.files.rows import ReadRows, Rows

if TYPE_CHECKING:
    from sweeps.messages.reporter import Reporter
    from sweeps.results.reference import ReferenceResult
    from trainables.data.core.base import Data
    from trainables.metrics import Difference

_CLOSE_FROM_THE_START: Final = 0.98  # share of the constant classifier's error and NLL
_FEW_OF_A_CLASS: Final = 200  # samples of the rarest class, in the validation split
_STILL_FALLING: Final = 0.03  # relative fall of the training loss in the last third of the epochs
_HARDLY_FELL: Final = 0.1  # relative fall of the training loss in all epochs


@dataclass(frozen=True)
class ConstantClassifier:
    """A classifier that gives each class its share of the samples as probability.

    Its NLL is the lowest without looking at the inputs.
    """

    error: float
    nll: float


def constant_classifier(labels: npt.NDArray[np.int64], decisions: int = 1) -> ConstantClassifier:
    """The constant classifier for labels (N,); means if a sample has several decisions."""
    shares = [
        np.bincount(labels[place::decisions]) / len(labels[place::decisions])
        for place in range(decisions)
    ]
    return ConstantClassifier(
        float(np.mean([1 - share.max() for share in shares])),
        float(np.mean([-(share[share > 0] * np.log(share[share > 0])).sum() for share in shares])),
    )


class FirstEpochs:
    """Reports once if the baseline diverges, or has learned nothing in its first epochs.

    A listener of the trial queue.
    """

    def __init__(self, dataset: Data, reporter: Reporter, plan: Plan) -> None:
        self._dataset = dataset
        self._plan = plan
        self._reporter = reporter
        self._done = False

    def take(self, record: TrialRecord) -> None:
        if self._done or record.role != "baseline":
            return
        failed = record.state == "failed"
        if not failed and record.epochs < 3:  # too early to tell
            return
        self._done = True
        if failed:
            if record.diverged:
                _, lower_rate, _ = _changes(self._plan)
                self._reporter.notice(f"The baseline {record.reason}. Try {lower_rate}.")
            return
        constant = self._constant()
        if constant is None or not _is_constant(record, constant):
            return
        error = record.outcome["val_error"]
        self._reporter.notice(
            f"After {counted(record.epochs, 'epoch')} the baseline has learned nothing: its "
            f"validation error is {error:.1%}; always predicting the most frequent class has "
            f"{constant.error:.1%}. {_suggestion(record, constant, self._plan)} If it needs a "
            "warm-up, wait; else stop the sweep with Ctrl-C and start another one."
        )

    def _constant(self) -> ConstantClassifier | None:
        from trainables.data.core.base import Dataset  # imports torch
        from trainables.data.core.tasks import OneClass

        data = self._dataset
        if not isinstance(data, Dataset) or not isinstance(data.task, OneClass):
            return None
        return constant_classifier(np.asarray(data.validation.labels))


def _is_constant(record: TrialRecord, constant: ConstantClassifier) -> bool:
    return all(
        entry["val_error"] >= _CLOSE_FROM_THE_START * constant.error
        and entry["val_nll"] >= _CLOSE_FROM_THE_START * constant.nll
        for entry in record.history
    )


def learning_warnings(
    ranking: Ranking,
    read: ReadRows,
    plan: Plan,
    references: Sequence[ReferenceResult] = (),
) -> list[str]:
    """A warning if the baseline or the selected setting is not shown to have learned anything.

    Its NLL, after a temperature, must be lower than that of a constant classifier on the whole
    paired interval. Raises OSError or ValueError if the predictions on the validation split cannot
    be read.
    """
    candidates = [c for c in (ranking.chosen, ranking.baseline) if c is not None]
    rows = {c.loss: read("validation", c.judged[0].number) for c in candidates}
    against = {loss: _against_constant(each) for loss, each in rows.items()}
    if not (poor := [c for c in candidates if against[c.loss].verdict != "supported"]):
        return []
    first = rows[poor[0].loss]
    constant = constant_classifier(first.labels, first.decisions)
    errors = " and ".join(
        f"{loss} {c.val_error:.1%}" for loss, c in {c.loss: c for c in poor}.items()
    )
    found = against[poor[0].loss]
    head = (
        "Nothing was learned, so do not use this result"
        if found.value >= 0
        else f"It is not shown that {poor[0].loss} learned anything, so do not rely on this result"
    )
    return [
        f"{head}: the validation NLL of {poor[0].loss} after a temperature minus that of always "
        f"predicting the class frequencies is {found.value:+.4f} "
        f"[{found.low:+.4f}, {found.high:+.4f}]. The validation error is {errors}; always "
        f"predicting the most frequent class has {constant.error:.1%}. A constant classifier may "
        "have a low calibration error and is still useless. "
        f"{_advice(poor, constant, plan, references, _few(first, found.value))}"
    ]


def _few(rows: Rows, difference: float) -> str:
    """What helps if the network seems better than a constant, but a class has few samples."""
    counts = np.bincount(rows.labels)
    count = int(counts[counts > 0].min())
    if difference >= 0 or count >= _FEW_OF_A_CLASS:
        return ""
    return (
        f"The rarest class has {counted(count, 'sample')} in the validation split: more samples of "
        "it (dataset.validation) may show that something was learned. "
    )


def _against_constant(rows: Rows) -> Difference:
    """NLL of predictions after a cross-fitted temperature minus that of a constant classifier."""
    from trainables.metrics import Design, mean_difference
    from trainables.metrics.proper_scores import log_losses_of_logits
    from trainables.posthoc import cross_fitted

    logits, labels = double_tensors(rows)
    constant = labels.double()
    for place in range(rows.decisions):
        own = labels[place :: rows.decisions]
        constant[place :: rows.decisions] = -(own.bincount().double() / len(own)).log()[own]
    design = Design(decisions=rows.decisions, clusters=rows.clusters())
    scaled = cross_fitted(logits, labels, clusters=design.clusters)
    losses = log_losses_of_logits(scaled, labels)
    return mean_difference("nll", [losses], [constant], design)


def _advice(
    poor: Sequence[Candidate],
    constant: ConstantClassifier,
    plan: Plan,
    references: Sequence[ReferenceResult],
    few: str,
) -> str:
    """What to change: the training only if a reference model is not found to fail as well.

    References with an NLL are compared by it: for a rare class, the error of all models is that of
    a constant.
    """
    training = few or _suggestion(poor[-1].judged[0], constant, plan)
    by_nll = best_reference(references, "test_nll")
    if by_nll and by_nll.outcome["test_nll"] < _CLOSE_FROM_THE_START * constant.nll:
        return (
            f"On the test split, {by_nll.name} has an NLL of {by_nll.outcome['test_nll']:.4f}; the "
            f"class frequencies have {constant.nll:.4f}. So the inputs say something about the "
            f"labels. {training}"
        )
    if (best := best_reference(references)) is None:
        return training
    theirs = f"On the test split, {best.name} has an error of {best.outcome['test_error']:.1%}"
    if is_clearly_better(best, poor[-1]) or math.isnan(poor[-1].mean("test_error")):
        return f"{theirs}. {training}"
    return (
        f"{theirs}, which is not clearly better. {few}So the inputs may say little about the "
        "labels: check that they belong to each other, and use more samples or other inputs."
    )


def _suggestion(record: TrialRecord, constant: ConstantClassifier, plan: Plan) -> str:
    """What to change, judging by the training loss of a trial that learned almost nothing.

    It is never the present value. A custom loop has a recipe of its own.
    """
    losses = [entry.get("train_loss", math.nan) for entry in record.history]
    epochs = f"more than {counted(plan.epochs, 'epoch')} (training.epochs)"
    rate, lower_rate, optimizer = _changes(plan)
    if len(losses) < 2 or not all(math.isfinite(loss) for loss in losses):
        return (
            f"It was trained for {counted(record.epochs, 'epoch')}: try {epochs}, "
            f"{rate}{optimizer}."
        )
    first, last = losses[0], losses[-1]
    before = losses[-1 - math.ceil(len(losses) / 3)]
    curve = f"the training loss went from {first:.3g} to {last:.3g} in {len(losses)} epochs"
    if last > first or (record.loss == BASELINE_LOSS and last > constant.nll):
        return f"As {curve}, try {lower_rate}{optimizer}."
    if before - last > _STILL_FALLING * abs(before):
        return f"As {curve} and was still falling, train for {epochs}."
    if first - last < _HARDLY_FELL * abs(first):
        return f"As {curve}, try {rate}{optimizer}, and train for {epochs}."
    return (
        f"As {curve}, but the validation error stayed high, the network has only memorised its "
        "training samples: check that the labels belong to the inputs, use more data, or a smaller "
        "model."
    )


def _changes(plan: Plan) -> tuple[str, str, str]:
    """Another learning rate, a lower one, and another optimizer (or nothing), in words."""
    if plan.sweep.trainable is not None:
        return "another learning rate in your loop", "a lower learning rate in your loop", ""
    training = plan.sweep.training
    rate = "" if training.lr is None else f", now {training.lr:g}"
    adam = training.optimizer is not None and training.optimizer.startswith("adam")
    return (
        f"another learning rate (training.lr{rate})",
        f"a lower learning rate (training.lr{rate})",
        "" if adam else " or training.optimizer = adam with training.lr = 0.001",
    )
