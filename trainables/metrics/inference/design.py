"""How two settings are compared: what is independent, and how ours was selected."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from trainables.metrics._inputs import check_count, check_level
from trainables.metrics.inference.clusters import Clusters, clusters_of
from trainables.metrics.inference.selection import Selection


@dataclass(frozen=True, eq=False)
class Design:
    """How two settings are compared.

    Attributes:
        confidence: Level of the interval, in (0, 1).
        candidates: Number of settings from which ours was selected by results on these samples.
        finalists: Number of settings trained again with fresh seeds, from which ours was selected
            as the best. None if there were no fresh seeds: the runs are those of the search.
        fresh_samples: Whether these samples were not used for selection, like a test split.
            `candidates` is then ignored, since only the runs were selected, on other samples.
        same_runs: Whether both settings are the same networks in the same order, for example with
            and without temperature scaling. The variance over seeds is then that of their paired
            differences.
        decisions: Number of consecutive rows per sample that are different decisions, as in
            multi-label data. The metric is then the mean over the decisions, and samples, not rows,
            are independent.
        clusters: The cluster of each row, (N,) integers; see `interval`. With fewer than 10 of
            them, the interval is infinite.

    Raises:
        ValueError: If a number is not as above.
    """

    confidence: float = 0.95
    candidates: int = 1
    finalists: int | None = None
    fresh_samples: bool = False
    same_runs: bool = False
    decisions: int = 1
    clusters: Tensor | None = None

    def __post_init__(self) -> None:
        check_level(self.confidence)
        for name in ("candidates", "decisions"):
            check_count(name, getattr(self, name))
        check_count("finalists", self.finalists or self.candidates)
        if (self.finalists or 0) > self.candidates:
            raise ValueError(
                f"finalists must be at most candidates = {self.candidates}, got {self.finalists}"
            )

    @property
    def selection(self) -> Selection:
        """How ours was selected, with the allowed error of the interval."""
        finalists = self.finalists or self.candidates
        return Selection(1 - self.confidence, self.candidates, finalists, self.fresh_samples)

    def units(self, count: int) -> Clusters:
        """What is independent among `count` rows: clusters, or samples with all their decisions.

        Raises:
            TypeError: The clusters are no tensor of integers.
            ValueError: The rows are not `decisions` of each sample, or there is not a cluster for
                each.
        """
        if count % self.decisions:
            raise ValueError(f"{count} rows are not {self.decisions} of each sample")
        samples = Clusters(np.arange(count) // self.decisions, alike=False)
        return clusters_of(self.clusters, count) or samples


ONE_LOOK = Design()
"""One run of each, without a selection, on independent samples."""
