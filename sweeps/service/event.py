"""The probability of the event, or of each class, in a sweep, for the recommended network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sweeps.results.evidence import EventEvidence
from sweeps.results.recommendation import Recommendation, shown_network
from sweeps.search.ranking import Ranking
from trainables.files.rows import ReadRows

_METRICS: Final = ("event_ece", "auroc")


def judge_shares(
    ranking: Ranking,
    read: ReadRows,
    recommended: Recommendation | None,
    classes: Sequence[str],
) -> list[EventEvidence]:
    """Mean probability against frequency on the test split, after scaling.

    Of the event, the rarer of two classes, or of each of up to 20 classes, at the level corrected
    for their number. Empty without a network or names of classes, and with several decisions per
    sample. Raises OSError or ValueError if predictions cannot be read.
    """
    from sweeps.judging.event_bins import event_index
    from sweeps.judging.events import MOST_CLASSES, event_found, share_of

    network = shown_network(ranking, recommended)
    if network is None or not 2 <= len(classes) <= MOST_CLASSES:
        return []
    rows = read("test", network.number)
    if rows.per_sample > 1:
        return []
    from sweeps.evidence.scaling import scaled_rows
    from sweeps.judging.inputs import predicted_of_rows
    from trainables.metrics import intervals
    from trainables.metrics.inference.clusters import clusters_of

    scaled = scaled_rows(read, network, ranking.rule.scaling)
    model = predicted_of_rows(network.label, scaled, classes)
    if len(classes) > 2:
        clusters, level = clusters_of(model.clusters, len(model.labels)), 1 - 0.05 / len(classes)
        return [
            EventEvidence(model.name, name, share_of(p, model.labels == index, clusters, level))
            for index, (name, p) in enumerate(zip(classes, model.probs.T, strict=True))
        ]
    found = event_found(model, event_index(model.labels))
    figures = {
        **intervals(model.probs, model.labels, _METRICS, clusters=model.clusters),
        **{name: (m.value, m.low, m.high) for name, m in found.lines.items()},
    }
    return [EventEvidence(model.name, found.name, found.share, figures)]
