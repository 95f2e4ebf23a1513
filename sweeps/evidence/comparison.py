"""Compares the selected setting with cross-entropy, as trained and as handed out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product
from typing import TYPE_CHECKING, Final

import numpy as np

from sweeps.evidence.scaling import double_tensors, scaled_network
from sweeps.results.verdicts import (
    CALIBRATION_PART,
    ERROR,
    UNCHANGED_BY_TEMPERATURE,
    Arm,
    Comparison,
    Split,
    Verdict,
    error_of,
)
from sweeps.search.finalist_plan import Look
from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.config import ScalingWay
from trainables.contract.metric_names import MetricName
from trainables.contract.setting import BASELINE_LOSS
from trainables.files.rows import ReadRows, Rows

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.metrics import Design, Difference


_UNSCALABLE: Final = ("error", "accuracy")  # no temperature changes them
_OPPOSITE: Mapping[Verdict, Verdict] = {
    "supported": "worse",
    "worse": "supported",
    "not supported": "not supported",
}
NO_LOOKS: Mapping[int, float] = {}
LEAST_CHANCE = 0.02  # of a supported verdict; below it, no further seeds are trained


def compare(
    ranking: Ranking,
    read: ReadRows,
    earlier_candidates: int = 0,
    looks: Mapping[int, float] = NO_LOOKS,
) -> list[Comparison]:
    """Compare the selected setting with cross-entropy on the validation split.

    Scalings are cross-fitted on the validation split. The intervals are corrected for the
    selection, which used the same samples.

    Args:
        ranking: The ranking of the sweep's trials.
        read: Returns a trial's predictions.
        earlier_candidates: Number of settings that earlier sweeps tried on the same data, if this
            sweep continues their selection.
        looks: After how many seeds the verdict is looked at, and each look's share of the allowed
            error, where seeds are added until it is decided.

    Returns:
        One comparison with cross-entropy as it is, and one of both after their scalings, by the
        metric of the objective. Metrics whose differences have no valid interval are omitted. A
        selected baseline is only compared with itself after scaling. For a metric that no
        temperature changes (the error), the setting is only compared with cross-entropy as it is.
        Empty if no setting was selected or the baseline did not finish.

    Raises:
        OSError: Predictions cannot be read.
        ValueError: They are damaged.
    """
    from trainables.metrics import Design

    rivals = [c for c in ranking.candidates if c != ranking.baseline]
    candidates = max(1, len(rivals) + earlier_candidates)
    finalists = max(1, sum(c.seeds > 0 for c in rivals))
    fresh = ranking.chosen is not None and ranking.chosen.seeds > 0
    of_looks = _Looks(looks, ranking)
    design = Design(of_looks.confidence, candidates, finalists if fresh else candidates)
    return _compared(ranking, read, design, candidates, of_looks)


def look(comparisons: Sequence[Comparison]) -> Look:
    """Whether further seeds may still change a verdict on the validation split.

    ``open`` where one is not supported yet and is likely enough to be with more seeds, else
    ``decided`` if all are supported or worse, and ``hopeless`` if one is not.
    """
    rest = [each for each in comparisons if each.verdict == "not supported"]
    if any(each.chance is not None and each.chance >= LEAST_CHANCE for each in rest):
        return "open"
    return "decided" if comparisons and not rest else "hopeless"


def compare_on_test_split(ranking: Ranking, read: ReadRows, sweeps: int = 1) -> list[Comparison]:
    """Compare the selected setting with cross-entropy on the test split; see :func:`compare`.

    Scalings were fitted on the validation split. The noise of the samples needs no correction
    for the selection. The noise of the networks does, because the best finalist was selected. All
    `sweeps` that were evaluated on this split, this one included, share the allowed error.

    If the objective is an unscaled calibration error, the first comparison with cross-entropy as it
    is uses the calibration part of the NLL, which is a mean over samples and has a narrower
    interval. (On the validation split the temperature is cross-fitted, and the interval
    of such a mean covers only 86 % if both are calibrated, n = 300.)
    """
    from trainables.metrics import Design

    finalists = max(1, sum(c.seeds > 0 for c in ranking.candidates if c != ranking.baseline))
    design = Design(1 - error_of(sweeps), finalists, finalists, fresh_samples=True)
    return _compared(ranking, read, design, sweeps)


def compare_losses(ranking: Ranking, read: ReadRows, sweeps: int = 1) -> list[Comparison]:
    """Compare the finalists of the losses in pairs on the test split, also with cross-entropy.

    Cross-entropy is compared as it is, and both after their scalings. No pair is selected by its
    result. All pairs and all sweeps share the allowed error, as in :func:`compare_on_test_split`.
    Empty if the selected setting alone is a finalist, which has its own verdicts, or no metric has
    a valid interval.
    """
    from trainables.metrics import Design

    objective = MetricName.parse(ranking.rule.objective)
    finalists = [c for c in ranking.candidates if c.seeds and c != ranking.baseline]
    if not finalists or finalists == [ranking.chosen]:
        return []
    scaled = objective.scaled and objective.metric not in UNCHANGED_BY_TEMPERATURE
    settings = [(each, scaled) for each in finalists]
    pairs = [(*pair, _metrics_of(objective)) for pair in combinations(settings, 2)]
    if (baseline := ranking.baseline) is not None:
        for (ours, _), both in product(settings, (False, True)):
            metrics = _metrics_against(objective, scaled=both)
            pairs.append(((ours, both or scaled), (baseline, both), metrics))
    pairs = [pair for pair in pairs if pair[2]]
    trained = finalists if baseline is None else [*finalists, baseline]
    design = Design(1 - error_of(sweeps) / max(1, len(pairs)))
    runs = _Runs(read, ranking.rule.scaling, trained, design, sweeps)
    return [
        runs.compare(metric, ours, theirs) for ours, theirs, metrics in pairs for metric in metrics
    ]


def _metrics_against(objective: MetricName, *, scaled: bool) -> list[str]:
    """Metrics to compare with cross-entropy, without those that its scaling decides."""
    decided = (*UNCHANGED_BY_TEMPERATURE, CALIBRATION_PART) if scaled else ()
    return [metric for metric in _metrics_of(objective) if metric not in decided]


def verdicts_in_pairs(
    settings: Sequence[Candidate],
    metrics: Sequence[MetricName],
    read: ReadRows,
    way: ScalingWay,
    sweeps: int = 1,
) -> dict[tuple[str, Arm, Arm], Verdict]:
    """Verdicts by metric, arm and other arm on the test split, for a table of all settings.

    Of unscaled metrics, each setting is also compared with cross-entropy after its scaling. All
    pairs and all sweeps share the allowed error of a metric, see :func:`compare_losses`. Other
    metrics than ``trainables.metrics.COMPARABLE`` have no verdict. `settings` are one of each loss,
    with fresh seeds; the split of `metrics` is ignored. Errors are those of :func:`compare`.
    """
    from trainables.metrics import COMPARABLE, Design

    found: dict[tuple[str, Arm, Arm], Verdict] = {}
    for name in metrics:
        pairs = [((a, name.scaled), (b, name.scaled)) for a, b in combinations(settings, 2)]
        if not name.scaled and name.metric not in _UNSCALABLE:
            pairs += [
                ((a, False), (b, True))
                for a, b in permutations(settings, 2)
                if b.loss == BASELINE_LOSS
            ]
        design = Design(1 - error_of(sweeps) / max(1, len(pairs)))
        runs = _Runs(read, way, settings, design, sweeps)
        for pair in pairs if name.metric in COMPARABLE else ():
            each = runs.compare(name.metric, *pair)
            found[name.metric, each.ours, each.theirs] = each.verdict
            found[name.metric, each.theirs, each.ours] = _OPPOSITE[each.verdict]
    return found


def compare_handed_out(
    ours: Rows,
    theirs: Rows,
    sweeps: int = 1,
    names: tuple[str, str] = ("recommended", "champion"),
) -> Comparison:
    """Compare two trained classifiers by NLL, given their calibrated predictions on a test split.

    Both are already trained, so the interval is over samples alone. All `sweeps` that were
    evaluated on the split share the allowed error. NLL decides, because it is lower both for better
    calibrated and for more accurate classifiers; the ECE of a constant can be 0.

    Raises:
        ValueError: The predictions are of different samples or classes.
    """
    from trainables.metrics import Design

    if ours.logits.shape != theirs.logits.shape or not np.array_equal(ours.labels, theirs.labels):
        raise ValueError("the predictions are of different samples")
    (logits, labels), (rival, _) = double_tensors(ours), double_tensors(theirs)
    design = Design(1 - error_of(sweeps), decisions=ours.decisions, clusters=ours.clusters())
    arms = (Arm(names[0]), Arm(names[1]))
    found = compare_trained(arms, (logits, rival), labels, design)
    return replace(found, split="test", corrected_for=sweeps, groups=ours.num_groups)


def compare_trained(
    arms: tuple[Arm, Arm], logits: tuple[Tensor, Tensor], labels: Tensor, design: Design
) -> Comparison:
    """Compare two trained classifiers by NLL: the interval is over samples alone."""
    from trainables.metrics import difference

    ours, theirs = ([each.softmax(dim=1)] for each in logits)
    found = difference("nll", ours, theirs, labels, design)
    return Comparison(
        ours=arms[0],
        theirs=arms[1],
        metric="nll",
        value=found.value,
        low=found.low,
        high=found.high,
        verdict=found.verdict,
        seeds=0,
        groups=found.clusters,
    )


def _metrics_of(objective: MetricName) -> list[str]:
    from trainables.metrics import COMPARABLE

    found = [objective.metric] if objective.metric in COMPARABLE else []
    if objective.metric.endswith(("ece", "mce")) and not objective.scaled:
        found.insert(0, CALIBRATION_PART)  # it has the narrower interval, so it decides
    return found


def _compared(
    ranking: Ranking,
    read: ReadRows,
    design: Design,
    corrected_for: int,
    looks: _Looks | None = None,
) -> list[Comparison]:
    chosen, baseline = ranking.chosen, ranking.baseline
    if chosen is None or baseline is None:
        return []
    objective = MetricName.parse(ranking.rule.objective)
    scaled = objective.scaled and objective.metric not in UNCHANGED_BY_TEMPERATURE
    finalists = [each for each in ranking.candidates if each.seeds]
    runs = _Runs(read, ranking.rule.scaling, finalists, design, corrected_for, looks)
    found = []
    for both in (False, True):
        ours = chosen, scaled or (both and chosen != baseline)
        if ours == (theirs := (baseline, both)):
            continue
        for metric in _metrics_against(objective, scaled=both):
            if metric == CALIBRATION_PART and runs.split != "test":
                continue
            found.append(runs.compare(metric, ours, theirs))
    return found


class _Looks:
    """Which of the looks at a verdict this is."""

    def __init__(self, looks: Mapping[int, float], ranking: Ranking) -> None:
        most = 0 if ranking.chosen is None else ranking.chosen.seeds
        self.count = max(1, len(looks))
        self.seeds = next((seeds for seeds in looks if seeds >= most), most)
        self.last = max(looks, default=most)
        self.confidence = 1 - ERROR * looks.get(self.seeds, 1.0)
        self.last_confidence = 1 - ERROR * looks.get(self.last, 1.0)

    def chance(self, found: Difference, design: Design) -> float | None:
        from trainables.metrics import chance_of_support

        if self.seeds == self.last:
            return None
        chance = chance_of_support(found, self.last, design, confidence=self.last_confidence)
        return None if math.isnan(chance) else chance


@dataclass
class _Runs:
    """Probabilities of trials on a split, as trained and after their scalings.

    Attributes:
        finalists: Settings from which the variance over seeds is estimated.
        design: How ours was selected.
        corrected_for: See :class:`~sweeps.results.verdicts.Comparison`.
        looks: Of the validation split; None for the test split.
    """

    read: ReadRows
    way: ScalingWay
    finalists: Sequence[Candidate]
    design: Design
    corrected_for: int
    looks: _Looks | None = None
    _first: Rows | None = None

    @property
    def split(self) -> Split:
        return "test" if self.looks is None else "validation"

    def compare(
        self, metric: str, ours: tuple[Candidate, bool], theirs: tuple[Candidate, bool]
    ) -> Comparison:
        """Compare two settings, each after its scaling if the second item says so."""
        same, looks = ours[0] == theirs[0], self.looks
        others = [(each, ours[1]) for each in self.finalists if each not in (ours[0], theirs[0])]
        rows = self._rows(ours[0].judged[0])
        clusters = rows.clusters()
        design = replace(self.design, same_runs=same, decisions=rows.decisions, clusters=clusters)
        judged = self._difference(metric, (ours, theirs, *others), design)
        return Comparison(
            ours=Arm(ours[0].loss, ours[1]),
            theirs=Arm(theirs[0].loss, theirs[1]),
            metric=metric,
            value=judged.value,
            low=judged.low,
            high=judged.high,
            verdict=judged.verdict,
            seeds=min(len(ours[0].judged), len(theirs[0].judged)),
            split=self.split,
            corrected_for=self.corrected_for,
            looks=1 if looks is None else looks.count,
            chance=None if looks is None else looks.chance(judged, design),
            groups=rows.num_groups,
        )

    def _difference(
        self, metric: str, settings: Sequence[tuple[Candidate, bool]], design: Design
    ) -> Difference:
        from trainables.metrics import difference, mean_difference

        if metric == CALIBRATION_PART:
            ours, theirs, *others = (self._calibration_part(each) for each, _ in settings)
            return mean_difference(metric, ours, theirs, design, others=others)
        ours, theirs, *others = (self._probs(each, scaled=scaled) for each, scaled in settings)
        labels = self._rows(settings[0][0].judged[0]).tensors()[1]
        return difference(metric, ours, theirs, labels, design, others=others)

    def _probs(self, candidate: Candidate, *, scaled: bool) -> list[Tensor]:
        """Probabilities (N, K) of each judged trial, after its scaling if ``scaled``."""
        return [self._logits_of(trial, scaled=scaled).softmax(dim=1) for trial in candidate.judged]

    def _calibration_part(self, candidate: Candidate) -> list[Tensor]:
        """The reduction of each sample's log loss by a temperature, (N,), for each judged trial."""
        from trainables.metrics.inference.intervals import nll_reductions

        found = []
        for trial in candidate.judged:
            logits, labels = double_tensors(self._rows(trial))
            found.append(nll_reductions(logits, logits / trial.outcome["temperature"], labels))
        return found

    def _logits_of(self, trial: TrialRecord, *, scaled: bool) -> Tensor:
        logits, _ = double_tensors(self._rows(trial))
        if not scaled:
            return logits
        found = scaled_network(self.read, trial, self.way)
        return found.scaling(logits) if self.split == "test" else found.crossed

    def _rows(self, trial: TrialRecord) -> Rows:
        rows = self.read(self.split, trial.number)
        self._first = self._first or rows
        if not np.array_equal(rows.labels, self._first.labels):
            raise ValueError(
                f"trial {trial.number} predicts other samples than the trials before it, or in "
                "another order"
            )
        return rows
