"""The probability of the event in a sweep of two classes, for the selected setting."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.results.judgement import EventEvidence
from sweeps.search.ranking import Ranking
from trainables.files.rows import ReadRows


def judge_event(ranking: Ranking, read: ReadRows, classes: Sequence[str]) -> list[EventEvidence]:
    """Its mean against its frequency on the test split, with the scaling of the first seed.

    Empty without a selected setting, with other than two classes, and with several decisions per
    sample. Raises OSError or ValueError if predictions cannot be read.
    """
    if ranking.chosen is None or len(classes) != 2:
        return []
    record = ranking.chosen.judged[0]
    rows = read("test", record.number)
    if rows.per_sample > 1:
        return []
    from sweeps.evidence.scaling import scaled_rows
    from sweeps.judging.event_bins import event_index
    from sweeps.judging.events import share_of
    from trainables.metrics.inference.clusters import clusters_of

    logits, labels = scaled_rows(read, record, ranking.rule.scaling).tensors()
    event = event_index(labels)
    clusters = clusters_of(rows.clusters(), len(labels))
    share = share_of(logits.double().softmax(dim=1)[:, event], labels == event, clusters)
    return [EventEvidence(record.label, classes[event], share)]
