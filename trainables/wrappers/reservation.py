"""What Ray reserves for a trial."""

from dataclasses import dataclass
from typing import Any

from ray.tune import PlacementGroupFactory


@dataclass(frozen=True)
class Reservation:
    """The resources of the process of a trial, from the trial's configuration.

    Tune gives a trial an idle process only if that has reserved the same. So trials of a later
    generation get new processes, by some bytes of memory more.
    """

    needed: dict[str, float]

    def __call__(self, config: dict[str, Any]) -> PlacementGroupFactory:
        """The placement group of a trial of Tune."""
        memory = self.needed.get("memory", 0) + config["generation"]
        return PlacementGroupFactory([{**self.needed, **({"memory": memory} if memory else {})}])
