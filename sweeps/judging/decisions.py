"""What the user asks about decisions: ``--costs`` and ``--accept-error``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sweeps.errors import UserError
from sweeps.judging.events import event_of
from sweeps.judging.inputs import Predicted
from sweeps.judging.thresholds import accepted_share, cost_threshold
from trainables.metrics.inference.clusters import clusters_of
from trainables.posthoc.chosen import choose

_COSTS = re.compile(r"fp=(\d*\.?\d+),fn=(\d*\.?\d+)")


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
        match = _COSTS.fullmatch(costs.replace(" ", ""))
        if match is None or not (float(match[1]) > 0 and float(match[2]) > 0):
            raise UserError(f"--costs {costs!r}: write two costs above 0: fp=1,fn=20")
        return cls((float(match[1]), float(match[2])), accept_error)

    def lines(self, model: Predicted, event: str | None) -> list[str]:
        """A sentence for each question, of cross-fitted scaled probabilities.

        Raises:
            UserError: There are not the classes, labels or independent samples that it needs.
        """
        if self.costs is None and self.accept_error is None:
            return []
        if model.soft is not None:
            raise UserError(f"{model.name}: thresholds need one label for each sample")
        probs, how = model.probs, ""
        if not model.top_label_only:
            choice = choose(model.logits, model.labels, model.clusters)
            if choice.candidate.name != "none":
                probs = choice.logits[choice.candidate].double().softmax(dim=1)
                how = f" (after {choice.candidate.name} scaling, cross-fitted)"
        clusters = clusters_of(model.clusters, len(model.labels))
        found = []
        if self.costs is not None:
            index = event_of(model, event)
            if index is None:
                raise UserError(f"{model.name}: --costs needs two classes")
            happened = model.labels == index
            name = model.classes[index]
            found.append(cost_threshold(name, probs[:, index], happened, self.costs, clusters).line)
        if self.accept_error is not None:
            if clusters is not None:
                raise UserError(f"{model.name}: --accept-error needs independent samples")
            confidence, winner = probs.max(dim=1)
            found.append(accepted_share(confidence, winner == model.labels, self.accept_error).line)
        return [f"{model.name}{how}: {line}" for line in found]
