"""Prediction sets of a sweep's finalists: their coverage and their size."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

from sweeps.evidence.scaling import double_tensors, scaled_network
from sweeps.results.evidence import SetsRow
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.config import ScalingWay
from trainables.files.rows import ReadRows, Rows

if TYPE_CHECKING:
    from trainables.export.prediction_sets import Labelled, Sets

COVERAGE: Final = 0.9
_MOST_CLASSES: Final = 20


def judge_sets(ranking: Ranking, read: ReadRows) -> list[SetsRow]:
    """Prediction sets of the finalists, or of the selected setting and the baseline.

    They are fitted on the validation split with cross-fitted scaling, and measured on the test
    split, a row for each setting and method. None if a sample has several decisions, or there are
    too few validation samples. Raises OSError or ValueError if predictions cannot be read.
    """
    judged = [each for each in ranking.candidates if each.seeds]
    if not judged:
        both = (ranking.chosen, ranking.baseline)
        judged = list({each.setting: each for each in both if each is not None}.values())
    rows = []
    for candidate in judged:
        of_seeds = []
        for trial in candidate.judged:
            sets = sets_of_trial(trial, read, (COVERAGE,), ranking.rule.scaling)
            if sets is None:
                return []
            of_seeds.append(sets)
        rows += set_rows(candidate.trials[0].label, of_seeds)
    return rows


def sets_of_trial(
    trial: TrialRecord, read: ReadRows, coverages: Sequence[float], way: ScalingWay
) -> Sets | None:
    """The prediction sets of a trial; None if a sample has several decisions."""
    from trainables.export.prediction_sets import fit_prediction_sets

    validation, test = (read(split, trial.number) for split in ("validation", "test"))
    known, unseen = one_class(validation), one_class(test)
    if known is None or unseen is None:
        return None
    found = scaled_network(read, trial, way)
    scaled = known._replace(logits=found.crossed)
    tested = unseen._replace(logits=found.scaling(unseen.logits))
    return fit_prediction_sets(scaled, tested, coverages)


def one_class(rows: Rows) -> Labelled | None:
    """The logits, float64, labels and groups; None if a sample has several decisions."""
    from trainables.export.prediction_sets import Labelled

    return Labelled(*double_tensors(rows), rows.clusters()) if rows.per_sample == 1 else None


def set_rows(label: str, of_seeds: Sequence[Sets]) -> list[SetsRow]:
    """The rows of one setting, from the sets of its runs, see :func:`judge_sets`."""
    rows = []
    for method in of_seeds[0]:
        facts = [found[method][f"{COVERAGE:g}"] for found in of_seeds]
        shown = {"coverage", "low", "high", "size"}
        means = {key: fmean(each[key] for each in facts) for key in facts[0] if key in shown}
        columns = zip(*(each["class_coverage"]["all"] for each in facts), strict=True)
        per_class = [fmean(column) for column in columns if None not in column]
        whole = len(per_class) == len(facts[0]["class_thresholds"]) <= _MOST_CLASSES
        rows.append(SetsRow(label, method, COVERAGE, **means, per_class=per_class if whole else ()))
    return rows
