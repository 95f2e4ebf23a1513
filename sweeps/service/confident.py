"""How often the confident predictions of what a sweep recommends are right."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from sweeps.evidence.ensemble import select, select_seeds
from sweeps.evidence.scaling import scaled_rows
from sweeps.judging.event_bins import share_ends
from sweeps.messages.confident import Confident
from sweeps.pages.predictions import probabilities, top_label
from sweeps.results.recommendation import Recommendation, shown_network
from sweeps.search.ranking import Ranking
from trainables.contract.setting import BASELINE_LOSS
from trainables.files.rows import Array, ReadRows

_LEAST: Final = 100  # predictions
_ALIKE: Final = 0.02  # mean confidences that differ by more are not comparable


def judge_confident(
    ranking: Ranking, read: ReadRows, recommended: Recommendation | None
) -> list[Confident]:
    """Of the recommended classifier, on the test split.

    Empty without a recommendation, and with fewer than 100 predictions. Raises OSError or
    ValueError if predictions cannot be read.
    """
    network = shown_network(ranking, recommended)
    if recommended is None or network is None:
        return []
    if recommended.kind != "ensemble":
        rows = read("test", network.number)
        scaled = scaled_rows(read, network, ranking.rule.scaling)
        independent = rows.independent and rows.per_sample == 1
        return confident(rows.logits, scaled.logits, rows.labels, independent=independent)
    several = (select_seeds if recommended.loss == BASELINE_LOSS else select)(ranking, read)
    if several is None:
        return []
    logits, labels, groups = several.on_test
    return confident(several.mean_on_test.logits, logits, labels, independent=groups is None)


def confident(
    plain: npt.ArrayLike, scaled: npt.ArrayLike, labels: npt.ArrayLike, *, independent: bool
) -> list[Confident]:
    """The tenth of predictions, at least 100, whose confidence is nearest to 90 %.

    Logits (N, K) before and after scaling, labels (N,).
    """
    ours, theirs = probabilities(scaled), probabilities(plain)
    right, confidence = _right_near(ours, labels, 0.9)
    if len(right) < _LEAST:
        return []
    before = math.nan
    if not np.allclose(ours, theirs):
        right_before, confidence_before = _right_near(theirs, labels, confidence.mean())
        if abs(confidence.mean() - confidence_before.mean()) <= _ALIKE:
            before = float(right_before.mean())
    count, low, high = right.sum(), math.nan, math.nan
    if independent:
        low, high = map(float, share_ends(count, len(right) - count))
    return [Confident(float(confidence.mean()), float(right.mean()), low, high, before)]


def _right_near(probs: Array, labels: npt.ArrayLike, level: float) -> tuple[Array, Array]:
    """Whether the predictions nearest to a confidence are right, and their confidences."""
    confidence, predicted = top_label(probs)
    nearest = np.argsort(abs(confidence - level), kind="stable")
    nearest = nearest[: max(_LEAST, len(nearest) // 10)]
    return predicted[nearest] == np.asarray(labels)[nearest], confidence[nearest]
