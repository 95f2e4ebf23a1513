"""Prediction sets of a sweep's finalists: their coverage and their size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.config import Criterion

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.export.prediction_sets import Sets

COVERAGE: Final = 0.9
Read = Callable[[str, int], bytes]
"""Gives the predictions on a split, ``validation`` or ``test``, of a trial."""


def judge_sets(ranking: Ranking, read: Read) -> list[dict[str, Any]]:
    """Prediction sets of the finalists, or of the selected setting and the baseline.

    They are fitted on the validation split with cross-fitted temperatures, and measured on the test
    split. A row for each setting and method has ``target`` (the nominal coverage), ``coverage`` and
    mean ``size``, as means over the judged seeds. None if a sample has several decisions, or there
    are too few validation samples. Raises OSError or ValueError if predictions cannot be read.
    """
    judged = [each for each in ranking.candidates if each.seeds]
    if not judged:
        both = (ranking.chosen, ranking.baseline)
        judged = list({each.setting: each for each in both if each is not None}.values())
    rows = []
    for candidate in judged:
        of_seeds = []
        for trial in candidate.judged:
            sets = sets_of_trial(trial, read, (COVERAGE,), ranking.rule.criterion)
            if sets is None:
                return []
            of_seeds.append(sets)
        rows += set_rows(candidate.trials[0].label, of_seeds)
    return rows


def sets_of_trial(
    trial: TrialRecord, read: Read, coverages: Sequence[float], criterion: Criterion
) -> Sets | None:
    """The prediction sets of a trial; None if a sample has several decisions."""
    from trainables.export.prediction_sets import fit_prediction_sets
    from trainables.posthoc import TemperatureScaling, cross_fitted

    splits = ("validation", "test")
    known, unseen = (read_one_class(read(split, trial.number)) for split in splits)
    if known is None or unseen is None:
        return None
    validation = cross_fitted(*known, partial(TemperatureScaling, criterion)), known[1]
    test = unseen[0] / trial.outcome["temperature"], unseen[1]
    return fit_prediction_sets(validation, test, coverages)


def read_one_class(data: bytes) -> tuple[Tensor, Tensor] | None:
    """Logits and labels of a trial's Parquet file; None if a sample has several decisions."""
    from trainables.files.predictions import layout_of
    from trainables.trials.outcome import read_predictions

    if max(layout_of(data)) > 1:
        return None
    logits, labels = read_predictions(data)
    return logits.double(), labels


def set_rows(label: str, of_seeds: Sequence[Sets]) -> list[dict[str, Any]]:
    """The rows of one setting, from the sets of its runs, see :func:`judge_sets`."""
    rows = []
    for method in of_seeds[0]:
        facts = [found[method][f"{COVERAGE:g}"] for found in of_seeds]
        measured = {key: fmean(each[key] for each in facts) for key in ("coverage", "size")}
        rows.append({"label": label, "method": method, "target": COVERAGE, **measured})
    return rows
