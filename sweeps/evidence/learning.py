"""Warns if a classifier has learned nothing: it is calibrated but useless."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from sweeps.messages.formatting import counted
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.setting import BASELINE_LOSS
from trainables.files.predictions import decode_predictions, layout_of

if TYPE_CHECKING:
    from sweeps.messages.reporter import Reporter
    from trainables.data.core.base import Data

_CLOSE: Final = 0.9  # share of the constant classifier's error and NLL; above it, a result is close
_CLOSE_FROM_THE_START: Final = 0.98  # the same in all of the first epochs
_FIRST_EPOCHS: Final = 3
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

    def __init__(self, dataset: Data, reporter: Reporter) -> None:
        self._dataset = dataset
        self._reporter = reporter
        self._done = False

    def take(self, record: TrialRecord) -> None:
        if self._done or record.role != "baseline":
            return
        failed = record.state == "failed"
        if not failed and record.epochs < _FIRST_EPOCHS:
            return
        self._done = True
        if failed:
            if (record.reason or "").startswith("diverged"):
                self._reporter.notice(
                    f"The baseline {record.reason}. Lower the learning rate (training.lr)."
                )
            return
        constant = self._constant()
        if constant is None or not _is_constant(record, constant):
            return
        error = record.outcome["val_error"]
        self._reporter.notice(
            f"After {counted(record.epochs, 'epoch')} the baseline has learned nothing: its "
            f"validation error is {error:.1%}; always predicting the most frequent class has "
            f"{constant.error:.1%}. {_suggestion(record, constant)} If it needs a warm-up, wait; "
            "else stop the sweep with Ctrl-C and start another one."
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


def learning_warnings(ranking: Ranking, read_predictions: Callable[[int], bytes]) -> list[str]:
    """A warning if the baseline or the selected setting has learned almost nothing.

    They are compared with a constant classifier by error and by NLL after temperature scaling. The
    error alone might not distinguish a useful model of a rare class from it. Raises OSError or
    ValueError if the predictions on the validation split cannot be read.
    """
    candidates = [c for c in (ranking.chosen, ranking.baseline) if c is not None]
    if not candidates:
        return []
    data = read_predictions(candidates[0].judged[0].number)
    constant = constant_classifier(decode_predictions(data)[1], layout_of(data)[0])
    poor = [c for c in candidates if _is_close(c, constant)]
    if not poor:
        return []
    by_loss = {c.loss: c.val_error for c in poor}
    errors = " and ".join(f"{loss} {error:.1%}" for loss, error in by_loss.items())
    return [
        f"Nothing was learned, so do not use this result: the validation error is {errors}; always "
        f"predicting the most frequent class has {constant.error:.1%}. Such a classifier may have "
        f"a low calibration error and is still useless. "
        f"{_suggestion(poor[-1].judged[0], constant)}"
    ]


def _is_close(candidate: Candidate, constant: ConstantClassifier) -> bool:
    nll = candidate.mean("val_nll_scaled")
    informs = not math.isnan(nll) and nll < _CLOSE * constant.nll
    return candidate.val_error >= _CLOSE * constant.error and not informs


def _suggestion(record: TrialRecord, constant: ConstantClassifier) -> str:
    """What to change, judging by the training loss of a trial that learned almost nothing."""
    losses = [entry.get("train_loss", math.nan) for entry in record.history]
    if len(losses) < 2 or not all(math.isfinite(loss) for loss in losses):
        return (
            f"It was trained for {counted(record.epochs, 'epoch')}: try more (training.epochs), "
            "and another learning rate (training.lr) or optimizer (training.optimizer)."
        )
    first, last = losses[0], losses[-1]
    before = losses[-1 - math.ceil(len(losses) / 3)]
    curve = f"the training loss went from {first:.3g} to {last:.3g} in {len(losses)} epochs"
    if last > first or (record.loss == BASELINE_LOSS and last > constant.nll):
        return (
            f"As {curve}, lower the learning rate (training.lr), or use training.optimizer = adam."
        )
    if before - last > _STILL_FALLING * abs(before):
        return f"As {curve} and was still falling, train longer (training.epochs)."
    if first - last < _HARDLY_FELL * abs(first):
        return (
            f"As {curve}, change the learning rate (training.lr) or the optimizer "
            "(training.optimizer = adam with training.lr = 0.001 is a good first try), and train "
            "longer (training.epochs)."
        )
    return (
        f"As {curve}, but the validation error stayed high, the network has only memorised its "
        "training samples: check that the labels belong to the inputs, use more data, or a smaller "
        "model."
    )
