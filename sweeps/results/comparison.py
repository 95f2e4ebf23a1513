"""Is the selected setting better than cross-entropy, and than cross-entropy with a temperature?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from sweeps.search.ranking import Candidate, Ranking
from sweeps.search.record import TrialRecord
from trainables.contract.metric_names import MetricName

if TYPE_CHECKING:
    from torch import Tensor

    from trainables.metrics import Difference

SCALED = " + temperature scaling"
ENSEMBLE = "ensemble"
UNCHANGED_BY_TEMPERATURE = ("error",)  # it does not change which class is the most probable
Verdict = Literal["supported", "not supported", "worse"]
Split = Literal["validation", "test"]
ReadPredictions = Callable[[int], bytes]

ERROR = 0.05  # the probability of an interval that misses, over all sweeps on a test split


@dataclass(frozen=True)
class Comparison:
    """The selected setting compared with another one.

    Attributes:
        ours: The selected setting as it is judged: with a temperature if the objective is scaled.
        theirs: What it is compared with.
        metric: Name of the metric.
        value: Difference of the metric, ours less theirs; means over the runs.
        low: Lower end of its interval over samples and seeds.
        high: Upper end.
        verdict: ``supported`` (ours is better), ``not supported`` (it may be chance) or ``worse``.
        seeds: How many runs of each there are.
        split: Whose samples: ``test`` took no part in the selection.
        corrected_for: On the validation split, from how many settings ours was selected; on the
            test split, how many sweeps were judged by it. The interval allows for that: all of
            them together miss in at most 5 % of cases.
    """

    ours: str
    theirs: str
    metric: str
    value: float
    low: float
    high: float
    verdict: Verdict
    seeds: int
    split: Split = "validation"
    corrected_for: int | None = None  # None in results of before that was kept

    @property
    def difference(self) -> str:
        """``-0.0123 [-0.0200, -0.0046]``."""
        return f"{self.value:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


def compare(
    ranking: Ranking, read_predictions: ReadPredictions, earlier_candidates: int = 0
) -> list[Comparison]:
    """Compare the selected setting with cross-entropy on the validation split.

    A temperature is fitted on one half of the validation split and judged on the other, both ways.
    The intervals allow for the selection, which the same samples made.

    Args:
        ranking: Of the sweep's trials.
        read_predictions: Returns a trial's predictions on the validation split, the content of a
            Parquet file.
        earlier_candidates: How many settings earlier sweeps tried on the same data, from which this
            sweep's selection continued.

    Returns:
        One comparison with cross-entropy as it is and one with a temperature. None where no setting
        was selected, the baseline did not finish, or no interval of the metric's differences is
        known to cover. A selected baseline is compared with itself after a temperature only. By a
        metric that no temperature changes (the error), the setting is compared with cross-entropy
        as it is only.

    Raises:
        OSError: Predictions cannot be read.
        ValueError: They are damaged.
    """
    from trainables.metrics import difference
    from trainables.posthoc import cross_fitted

    rivals = [c for c in ranking.candidates if c != ranking.baseline]
    candidates = max(1, len(rivals) + earlier_candidates)
    finalists = max(1, sum(c.seeds > 0 for c in rivals))
    fresh = ranking.chosen is not None and ranking.chosen.seeds > 0

    def judge(pair: _Pair) -> Difference:
        return difference(
            pair.metric,
            pair.ours,
            pair.theirs,
            pair.runs.labels,
            candidates=candidates,
            finalists=finalists if fresh else candidates,
            others=pair.others,
            same_runs=pair.same_runs,
            decisions=pair.runs.decisions,
            cluster_size=pair.runs.cluster_size,
        )

    def scale(logits: Tensor, trial: TrialRecord, runs: _Runs) -> Tensor:
        return cross_fitted(logits, runs.labels, cluster_size=runs.cluster_size)

    return _compared(ranking, _Runs(read_predictions, scale), judge, "validation", candidates)


def compare_on_test_split(
    ranking: Ranking, read_predictions: ReadPredictions, sweeps: int = 1
) -> list[Comparison]:
    """Compare the selected setting with cross-entropy on the test split, which selected nothing.

    Temperatures are those that were fitted on the validation split. The samples need no correction
    for the selection; the finalists' networks do, as the best of them was selected. The allowed
    error is shared by all sweeps that are judged by this split.

    Args:
        ranking: Of the sweep's trials.
        read_predictions: As of :func:`compare`, on the test split.
        sweeps: How many sweeps have evaluated this test split, this one included.

    Returns:
        As :func:`compare`.

    Raises:
        OSError: Predictions cannot be read.
        ValueError: They are damaged.
    """
    from trainables.metrics import difference

    finalists = max(1, sum(c.seeds > 0 for c in ranking.candidates if c != ranking.baseline))

    def judge(pair: _Pair) -> Difference:
        return difference(
            pair.metric,
            pair.ours,
            pair.theirs,
            pair.runs.labels,
            confidence=1 - ERROR / sweeps,
            candidates=finalists,
            finalists=finalists,
            fresh_samples=True,
            others=pair.others,
            same_runs=pair.same_runs,
            decisions=pair.runs.decisions,
            cluster_size=pair.runs.cluster_size,
        )

    runs = _Runs(read_predictions, _by_own_temperature)
    return _compared(ranking, runs, judge, "test", sweeps)


def compare_losses(
    ranking: Ranking, read_predictions: ReadPredictions, sweeps: int = 1
) -> list[Comparison]:
    """Compare the finalists of the losses with each other, in pairs, on the test split.

    No pair is selected by its result: the allowed error is shared by all pairs, and by all sweeps
    that are judged by this split. Arguments, result and errors as of :func:`compare_on_test_split`;
    none where fewer than two losses have a finalist.
    """
    from trainables.metrics import COMPARABLE, difference

    objective = MetricName.parse(ranking.rule.objective)
    metric = objective.metric
    finalists = [c for c in ranking.candidates if c.seeds and c != ranking.baseline]
    pairs = list(combinations(finalists, 2))
    if metric not in COMPARABLE or not pairs:
        return []
    scaled = objective.scaled and metric not in UNCHANGED_BY_TEMPERATURE
    runs = _Runs(read_predictions, _by_own_temperature)
    found = []
    for ours, theirs in pairs:
        others = [runs.of(each, scaled) for each in finalists if each not in (ours, theirs)]
        judged = difference(
            metric,
            runs.of(ours, scaled),
            runs.of(theirs, scaled),
            runs.labels,
            confidence=1 - ERROR / (sweeps * len(pairs)),
            others=others,
            decisions=runs.decisions,
            cluster_size=runs.cluster_size,
        )
        found.append(
            Comparison(
                ours.loss + SCALED * scaled,
                theirs.loss + SCALED * scaled,
                metric,
                judged.value,
                judged.low,
                judged.high,
                judged.verdict,
                min(ours.seeds, theirs.seeds),
                "test",
                sweeps,
            )
        )
    return found


def _by_own_temperature(logits: Tensor, trial: TrialRecord, runs: _Runs) -> Tensor:
    return logits / trial.outcome["temperature"]


@dataclass(frozen=True)
class _Pair:
    """Probabilities (N, K) of the runs of two settings, and of further ones."""

    metric: str
    ours: list[Tensor]
    theirs: list[Tensor]
    others: list[list[Tensor]]
    same_runs: bool
    runs: _Runs


def _compared(
    ranking: Ranking,
    runs: _Runs,
    judge: Callable[[_Pair], Difference],
    split: Split,
    corrected_for: int,
) -> list[Comparison]:
    from trainables.metrics import COMPARABLE

    chosen, baseline = ranking.chosen, ranking.baseline
    objective = MetricName.parse(ranking.rule.objective)
    metric = objective.metric
    if chosen is None or baseline is None or metric not in COMPARABLE:
        return []
    scaled = objective.scaled and metric not in UNCHANGED_BY_TEMPERATURE
    ours = runs.of(chosen, scaled)
    others = [
        runs.of(each, scaled)
        for each in ranking.candidates
        if each.seeds and each not in (chosen, baseline)
    ]
    found = []
    for with_temperature in (False,) if metric in UNCHANGED_BY_TEMPERATURE else (False, True):
        if (chosen, scaled) == (baseline, with_temperature):
            continue
        theirs = runs.of(baseline, with_temperature)
        judged = judge(_Pair(metric, ours, theirs, others, chosen == baseline, runs))
        found.append(
            Comparison(
                chosen.loss + SCALED * scaled,
                baseline.loss + SCALED * with_temperature,
                metric,
                judged.value,
                judged.low,
                judged.high,
                judged.verdict,
                min(len(ours), len(theirs)),
                split,
                corrected_for,
            )
        )
    return found


class _Runs:
    """Probabilities of trials on a split; each trial's predictions are read once.

    Args:
        read: Returns a trial's predictions, the content of a Parquet file.
        scale: Divides a trial's logits by its temperature.
    """

    def __init__(
        self, read: ReadPredictions, scale: Callable[[Tensor, TrialRecord, _Runs], Tensor]
    ) -> None:
        self._read, self._scale = read, scale
        self._logits: dict[int, Tensor] = {}
        self.labels: Tensor
        self.decisions = self.cluster_size = 1

    def of(self, candidate: Candidate, scaled: bool) -> list[Tensor]:
        """Of each judged trial (N, K), after its temperature if ``scaled``."""
        found = []
        for trial in candidate.judged:
            logits = self._of(trial.number)
            if scaled:
                logits = self._scale(logits, trial, self)
            found.append(logits.softmax(dim=1))
        return found

    def _of(self, number: int) -> Tensor:
        from trainables.files.predictions import cluster_size_of, decisions_of
        from trainables.trials.outcome import read_predictions

        if number not in self._logits:
            data = self._read(number)
            logits, labels = read_predictions(data)
            if self._logits and not labels.equal(self.labels):
                raise ValueError(
                    f"trial {number} predicts other samples than the trials before it, or in "
                    "another order"
                )
            self.labels = labels
            self.decisions, self.cluster_size = decisions_of(data), cluster_size_of(data)
            self._logits[number] = logits.double()
        return self._logits[number]


def deciding(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The comparison that decides the verdict.

    It is that with cross-entropy after a temperature, or by a metric that no temperature changes,
    with cross-entropy; on the test split, where there is one. None where that was not compared.
    """
    found = [
        each
        for each in comparisons
        if each.theirs.endswith(SCALED) or each.metric in UNCHANGED_BY_TEMPERATURE
    ]
    return next((each for each in found if each.split == "test"), found[0] if found else None)


def verdict(comparisons: Sequence[Comparison]) -> Verdict | None:
    """Whether the selected setting beats cross-entropy with a temperature, by :func:`deciding`."""
    found = deciding(comparisons)
    return None if found is None else found.verdict
