"""Is the chosen setting worth having? Better than cross-entropy, and than it with a temperature?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sweeps.formatting import counted, metric_heading
from sweeps.results.columns import objective_metric
from sweeps.search.ranking import Ranking
from sweeps.search.record import TrialRecord

if TYPE_CHECKING:
    from torch import Tensor

SCALED = " + temperature scaling"
Verdict = Literal["supported", "not supported", "worse"]


@dataclass(frozen=True)
class Comparison:
    """The chosen setting beside another, on the validation split.

    Attributes:
        ours: What was chosen, as it is judged: with a temperature if the objective says so.
        theirs: What it is compared with.
        metric: Name of the metric.
        value: Its difference, ours less theirs; means over the runs.
        low: Lower end of the 95% interval over samples and seeds, corrected for the choice.
        high: Its upper end.
        verdict: ``supported`` (ours is better), ``not supported`` (it cannot be told) or ``worse``.
        seeds: How many runs of each there are.
    """

    ours: str
    theirs: str
    metric: str
    value: float
    low: float
    high: float
    verdict: Verdict
    seeds: int

    @property
    def difference(self) -> str:
        """``-0.0123 [-0.0200, -0.0046]``."""
        return f"{self.value:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


def compare(ranking: Ranking, read_predictions: Callable[[int], bytes]) -> list[Comparison]:
    """Compare the chosen setting with cross-entropy as it is, and with a temperature.

    A temperature is fitted on one half of the validation split and judged on the other, both ways.
    The level of the intervals is corrected for the choice among all settings that finished, which
    the same samples made.

    Args:
        ranking: The sweep's.
        read_predictions: Gives a trial's predictions on the validation split, a Parquet file's
            content.

    Returns:
        Nothing where nothing was chosen or the baseline did not finish; of a chosen baseline the
        comparison with a temperature alone; nothing either for a metric whose differences have no
        interval that is known to cover.

    Raises:
        OSError: Predictions cannot be read.
        ValueError: They are damaged.
    """
    from trainables.metrics import COMPARABLE

    chosen, baseline = ranking.chosen, ranking.baseline
    objective = ranking.rule.objective
    metric = objective_metric(objective)
    if chosen is None or baseline is None or metric not in COMPARABLE:
        return []
    scaled = objective.endswith("_scaled")
    runs = _Runs(read_predictions)
    ours = runs.of(chosen.judged, scaled)
    others = [runs.of(c.judged, scaled) for c in ranking.candidates if c.seeds and c != chosen]
    name = f"{chosen.loss}{SCALED}" if scaled else chosen.loss
    found = []
    for theirs, with_temperature in ((baseline.loss, False), (f"{baseline.loss}{SCALED}", True)):
        if (chosen, scaled) != (baseline, with_temperature):
            found.append(
                _compared(
                    (name, ours),
                    (theirs, runs.of(baseline.judged, with_temperature)),
                    metric,
                    runs,
                    others,
                    len(ranking.candidates),
                )
            )
    return found


def _compared(
    ours: tuple[str, list[Tensor]],
    theirs: tuple[str, list[Tensor]],
    metric: str,
    runs: _Runs,
    others: list[list[Tensor]],
    candidates: int,
) -> Comparison:
    from trainables.metrics import difference

    found = difference(
        metric,
        ours[1],
        theirs[1],
        runs.labels,
        candidates=candidates,
        others=others,
        decisions=runs.decisions,
        cluster_size=runs.cluster_size,
    )
    return Comparison(
        ours[0],
        theirs[0],
        metric,
        found.value,
        found.low,
        found.high,
        found.verdict,
        min(len(ours[1]), len(theirs[1])),
    )


class _Runs:
    """Probabilities of trials on the validation split, each read once."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._logits: dict[int, Tensor] = {}
        self.labels: Tensor
        self.decisions = self.cluster_size = 1

    def of(self, trials: Sequence[TrialRecord], scaled: bool) -> list[Tensor]:
        """Of each trial (N, K), after a cross-fitted temperature if wanted."""
        from trainables.posthoc import cross_fitted

        found = []
        for trial in trials:
            logits = self._of(trial.number)
            if scaled:
                logits = cross_fitted(logits, self.labels, cluster_size=self.cluster_size)
            found.append(logits.softmax(dim=1))
        return found

    def _of(self, number: int) -> Tensor:
        from trainables.outcome import read_predictions
        from trainables.predictions import cluster_size_of, decisions_of

        if number not in self._logits:
            data = self._read(number)
            logits, labels = read_predictions(data)
            if self._logits and not labels.equal(self.labels):
                raise ValueError(
                    f"trial {number} predicts other validation samples than those before it, or in "
                    "another order"
                )
            self.labels = labels
            self.decisions, self.cluster_size = decisions_of(data), cluster_size_of(data)
            self._logits[number] = logits.double()
        return self._logits[number]


def verdict(comparisons: Sequence[Comparison]) -> Verdict | None:
    """Whether the choice beats cross-entropy with a temperature; None where it cannot be asked."""
    return next((c.verdict for c in comparisons if c.theirs.endswith(SCALED)), None)


def in_words(comparisons: Sequence[Comparison]) -> list[str]:
    """What the comparisons say, a sentence each, and what follows of them."""
    said = {
        "supported": "Yes, that is supported",
        "not supported": "Not supported, it may be chance",
        "worse": "No, it is worse",
    }
    lines = [
        f"Better than {each.theirs}? {said[each.verdict]}: {metric_heading(each.metric)} "
        f"{each.difference} on the validation split, over samples and "
        f"{counted(each.seeds, 'seed')}, corrected for the choice."
        for each in comparisons
    ]
    if verdict(comparisons) in ("not supported", "worse"):
        lines.append(
            f"Nothing here is shown to beat {comparisons[-1].theirs}: that is what to use, "
            "unless more validation samples tell otherwise."
        )
    return lines
