"""What the user asks about decisions: ``--costs`` and ``--accept-error``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sweeps.errors import UserError
from sweeps.judging.facts import Judged
from sweeps.judging.inputs import Predicted
from sweeps.judging.thresholds import accepted_share, cost_threshold
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
            raise UserError(f"--accept-error {accept_error:g}: allowed: between 0 and 1")
        if costs is None:
            return cls(None, accept_error)
        match = re.fullmatch(r"fp=(\d*\.?\d+),fn=(\d*\.?\d+)", costs.replace(" ", ""))
        if match is None or not (float(match[1]) > 0 and float(match[2]) > 0):
            raise UserError(f"--costs {costs!r}: write two costs above 0: fp=1,fn=20")
        return cls((float(match[1]), float(match[2])), accept_error)

    def lines(self, model: Predicted, judged: Judged) -> list[str]:
        """A sentence for each question about a judged model, after its recommended scaling.

        Raises:
            UserError: There are not the classes, labels or independent samples that it needs.
        """
        if self.costs is None and self.accept_error is None:
            return []
        if model.soft is not None:
            raise UserError(f"{model.name}: thresholds need one label for each sample")
        probs, how = model.probs, ""
        if judged.scaling is not None and judged.scaling.recommended != "none":
            way = ScalingWay(judged.scaling.recommended)
            crossed = fit_scaling(model.logits, model.labels, way, model.clusters)[1]
            probs = crossed.double().softmax(dim=1)
            how = f" (after {way.name} scaling, cross-fitted)"
        clusters = clusters_of(model.clusters, len(model.labels))
        found = []
        if self.costs is not None:
            if judged.event is None:
                raise UserError(f"{model.name}: --costs needs two classes")
            name = judged.event.name
            index = model.classes.index(name)
            happened = model.labels == index
            found.append(cost_threshold(name, probs[:, index], happened, self.costs, clusters).line)
        if self.accept_error is not None:
            if clusters is not None:
                raise UserError(f"{model.name}: --accept-error needs independent samples")
            confidence, winner = probs.max(dim=1)
            found.append(accepted_share(confidence, winner == model.labels, self.accept_error).line)
        return [f"{model.name}{how}: {line}" for line in found]
