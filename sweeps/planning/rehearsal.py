"""The first epoch on a GPU is a rehearsal: it compares the measured memory with the estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sweeps.messages.reporter import Reporter
from sweeps.planning.gpu_share import Gpu, gpu_share, memory_needed, workload_of
from sweeps.search.plan import Plan
from sweeps.search.record import Entry, TrialRecord

if TYPE_CHECKING:
    from trainables.data.core.base import Data

_RESERVE: Final = 1.1  # times the memory of one epoch: other epochs and losses may need more
_LOWEST, _HIGHEST = 0.5, 1.5  # times the share in use; a share between these limits is good enough


@dataclass
class Rehearsal:
    """Reports the first epoch of the baseline, or of the encoder if there is one.

    A listener of the trial queue. `nodes` returns the resources of each node.
    """

    plan: Plan
    dataset: Data
    reporter: Reporter
    nodes: Callable[[], Iterable[Mapping[str, float]]]
    _reported: bool = False

    def take(self, record: TrialRecord) -> None:
        role = "baseline" if self.plan.sweep.encoder is None else "encoder"
        if self._reported or record.role != role or len(record.history) != 1:
            return
        self._reported = True
        (entry,) = record.history
        if "gpu_memory" in entry:
            for line in findings(self.plan, self.dataset, entry, self.nodes()):
                self.reporter.notice(line)


def findings(
    plan: Plan, dataset: Data, entry: Entry, nodes: Iterable[Mapping[str, float]]
) -> list[str]:
    """Measurements of the first epoch, and a better ``gpus_per_worker`` if it is far off."""
    from trainables.data.core.base import Dataset  # imports torch

    sweep = plan.sweep
    workload = workload_of(sweep.trained, dataset)
    used, share = entry["gpu_memory"], sweep.scaling.gpus
    memory = f"{used / 1e9:.1f} GB of GPU memory"
    if workload is not None:
        memory += f" (estimated: {memory_needed(sweep, workload) / 1e9:.1f} GB)"
    facts = [memory]
    if isinstance(dataset, Dataset) and "training_seconds" in entry:  # custom loops have none
        recipe = (sweep.encoder or sweep).training
        samples = len(dataset.train.labels) / entry["training_seconds"]
        facts += [f"{samples:,.0f} samples/s", str(recipe.precision)]
    found = [f"First epoch: {', '.join(facts)}."]
    if workload is None or sweep.scaling.num_workers > 1:
        return found
    gpu = Gpu("", round(used / entry["gpu_memory_share"]), True)
    better = gpu_share(sweep, workload, gpu, nodes, _RESERVE * used)
    if not _LOWEST < better / share < _HIGHEST:
        trials = round(1 / better)
        fit = "one trial fits a GPU" if trials == 1 else f"{trials} trials fit a GPU"
        found.append(
            f"By this measurement {fit}: scaling.gpus_per_worker = {better:.3g} is better than "
            f"{share:.3g}."
        )
    return found
