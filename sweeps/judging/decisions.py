"""What the user asks about decisions: their costs, and the error that is accepted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sweeps.errors import UserError
from sweeps.judging.facts import Judged
from sweeps.judging.inputs import Predicted
from sweeps.judging.thresholds import Decided, accepted_share, cost_threshold
from trainables.contract.config import ScalingWay
from trainables.metrics.inference.clusters import clusters_of
from trainables.posthoc.chosen import fit_scaling


@dataclass(frozen=True)
class Decisions:
    """Costs of a false alarm and of a missed event, and the allowed error of accepted samples."""

    costs: tuple[float, float] | None = None
    accept_error: float | None = None

    @classmethod
    def parse(cls, costs: str | None, accept_error: float | None) -> Decisions:
        """UserError if a value is out of range, or has another form."""
        if accept_error is not None and not 0 < accept_error < 1:
            raise UserError("allowed: between 0 and 1", "accept_error", accept_error)
        if costs is None:
            return cls(None, accept_error)
        match = re.fullmatch(r"fp=(\d*\.?\d+),fn=(\d*\.?\d+)", costs.replace(" ", ""))
        if match is None or not (float(match[1]) > 0 and float(match[2]) > 0):
            raise UserError("write two costs above 0: fp=1,fn=20", "costs", repr(costs))
        return cls((float(match[1]), float(match[2])), accept_error)

    def of(self, model: Predicted, judged: Judged) -> Decided | None:
        """What is decided about a judged model, after its recommended scaling; None if not asked.

        Raises:
            UserError: There are not the classes, labels or independent samples that it needs.
        """
        if self.costs is None and self.accept_error is None:
            return None
        if model.soft is not None:
            raise UserError(f"{model.name}: thresholds need one label for each sample")
        probs, scaled = model.probs, None if judged.scaling is None else judged.scaling.recommended
        if scaled not in (None, "none"):
            way = ScalingWay(scaled)
            crossed = fit_scaling(model.logits, model.labels, way, model.clusters)[1]
            probs = crossed.double().softmax(dim=1)
        clusters, cost, accepted = clusters_of(model.clusters, len(model.labels)), None, None
        if self.costs is not None:
            if judged.event is None:
                raise UserError(f"{model.name}: costs need two classes")
            name = judged.event.name
            index = model.classes.index(name)
            cost = cost_threshold(
                name, probs[:, index], model.labels == index, self.costs, clusters
            )
        if self.accept_error is not None:
            if clusters is not None:
                raise UserError(f"{model.name}: a limit of the error needs independent samples")
            confidence, winner = probs.max(dim=1)
            accepted = accepted_share(confidence, winner == model.labels, self.accept_error)
        return Decided(scaled or "none", cost, accepted)
