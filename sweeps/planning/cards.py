"""Estimates of memory and time on a GPU that you do not have: `calsweep check --gpu`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sweeps.errors import UserError
from sweeps.messages.formatting import format_seconds
from sweeps.planning.devices import Gpu, gpu_share, inputs_per_step, memory_needed, workload_of
from sweeps.search.plan import Plan
from sweeps.sweep_file.schema import TrainingSection

if TYPE_CHECKING:
    from trainables.data.core.base import Dataset
    from trainables.engine.workload import Workload

_ACHIEVED: Final = 0.15  # share of the peak that training achieves: an assumption
_KERNELS, _SECONDS = 6, 5e-6  # per layer and step, and to start each: as in workload.busy_share


@dataclass(frozen=True)
class Card:
    """A GPU, described by its data sheet: GB of memory, and peak teraflops without sparsity.

    The peak is that of bfloat16 if the card supports it, else of float32.
    """

    gigabytes: float
    teraflops: float
    bfloat16: bool = True


# From NVIDIA's data sheets (SXM modules if there are several), without the factor 2 of sparsity.
CARDS: Final[dict[str, Card]] = {
    "t4": Card(16, 8.1, bfloat16=False),
    "v100": Card(32, 15.7, bfloat16=False),
    "a10": Card(24, 125),
    "a100-40gb": Card(40, 312),
    "a100-80gb": Card(80, 312),
    "l4": Card(24, 121),
    "l40s": Card(48, 362),
    "h100": Card(80, 989),
    "h200": Card(141, 989),
    "b200": Card(180, 2_250),
    "rtx3090": Card(24, 71),
    "rtx4090": Card(24, 165),
}


def card_facts(name: str, plan: Plan, dataset: Dataset) -> dict[str, str]:
    """Estimates for a sweep on a card: precision, trials per card and time.

    Raises:
        UserError: There is no such card, or the sweep trains by a custom loop.
    """
    sweep, card = plan.sweep, CARDS.get(name.lower())
    if card is None:
        raise UserError(f"--gpu {name}: unknown card; allowed: {', '.join(CARDS)}")
    workload, steps = workload_of(sweep.trained, dataset), inputs_per_step(sweep.stages)
    if workload is None:
        raise UserError(f"--gpu {name}: a custom loop's work cannot be counted; leave it out")
    gpu = Gpu(name, int(card.gigabytes * 1e9), card.bfloat16)
    one = sweep.scaling.model_copy(update={"num_workers": 1})
    nodes = [{"GPU": 1.0, "CPU": math.inf}]
    trials = round(1 / gpu_share(one, workload, steps, gpu, nodes))
    needed = memory_needed(workload, steps) / 1e9
    epoch = _seconds(sweep.training, steps[0][0], workload, card, dataset)
    fits = "" if needed <= card.gigabytes else ", which is more than it has"
    each = "one trial at a time" if trials == 1 else f"{trials} trials share it"
    precision = "bfloat16" if card.bfloat16 else "float32"
    whole = plan.most_epochs * epoch / trials
    return {
        f"on {name.lower()}": f"{precision}; {each}, with about {needed:.1f} of {card.gigabytes:g} "
        f"GB each{fits}",
        "time there": f"an estimate: about {format_seconds(epoch)} an epoch, "
        f"{format_seconds(whole)} of one GPU in all if no trial is stopped (counted operations at "
        f"{_ACHIEVED:.0%} of the card's peak, at least the time to start its kernels; without "
        "start-up and data loading)",
    }


def _seconds(
    recipe: TrainingSection, inputs: int, workload: Workload, card: Card, dataset: Dataset
) -> float:
    """Seconds per epoch: the time of the arithmetic, or of starting kernels if that is longer."""
    views = inputs / recipe.batch_size
    count = len(dataset.train.labels) * views
    steps = math.ceil(len(dataset.train.labels) / recipe.batch_size)
    operations = workload.operations * (3 * count + len(dataset.validation.labels))
    arithmetic = operations / (_ACHIEVED * card.teraflops * 1e12)
    starting = steps * _KERNELS * workload.layers * _SECONDS
    return max(arithmetic, starting)
