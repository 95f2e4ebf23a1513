"""Selects device and precision of trials if the sweep file says ``auto``, once, at the start."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sweeps.errors import UserError
from sweeps.messages.reporter import LOG, Reporter
from sweeps.sweep_file.schema import Stage, SweepFile
from sweeps.sweep_file.sections.resources import ScalingSection
from sweeps.sweep_file.sections.training import ModelSection, TrainableSection

if TYPE_CHECKING:
    from trainables.data.core.base import Data
    from trainables.engine.workload import Workload

_MOST_ON_ONE = 8  # trials that share a GPU: each needs a context, and the GPU serves them in turn
_ON_CPUS = "training.precision = bfloat16, in which these CPUs are faster than in float32."


@dataclass(frozen=True)
class Gpu:
    """A GPU; memory in bytes."""

    name: str
    memory: int
    bfloat16: bool


class Machines(Protocol):
    """The machines on which trials train."""

    @property
    def label(self) -> str:
        """What messages call them, such as ``this machine``."""

    def nodes(self) -> list[dict[str, float]]:
        """Resources (``CPU``, ``GPU``) of each machine, also of those that may still start."""

    def weakest_gpu(self, reporter: Reporter) -> Gpu | None:
        """The weakest GPU; None if PyTorch can use none."""

    def cpus_have_bfloat16(self) -> bool:
        """Whether the CPUs of all machines support bfloat16; False if some are unknown."""


def settle_devices(
    sweep: SweepFile, dataset: Data, machines: Machines, reporter: Reporter = LOG
) -> tuple[SweepFile, str | None]:
    """The sweep with its ``auto`` values replaced, and a message about them.

    ``gpus_per_worker`` becomes a number. ``precision`` becomes bfloat16 if all GPUs support it, or,
    for trials without a GPU, if all CPUs support it and a step is large enough to gain; otherwise
    float32. Explicit values stay. If both are explicit, no node is examined.

    Raises:
        UserError: A trial does not fit; or the sweep has a budget of GPU hours, but there are no
            GPUs.
        SweepFailedError: The cluster's GPUs cannot be examined.
    """
    share = sweep.scaling.gpus_per_worker
    open_precision = sweep.trainable is None and any(
        stage.recipe.precision == "auto" for stage in sweep.stages
    )
    nodes = machines.nodes()
    there_are = any(node.get("GPU", 0.0) >= 1 for node in nodes)
    wanted = share == "auto" or (share > 0 and open_precision)
    gpu = machines.weakest_gpu(reporter) if wanted and there_are else None
    said = None
    if share == "auto" and gpu is not None:
        share = gpu_share(sweep, workload_of(sweep.trained, dataset), gpu, nodes)
        said = _in_words(share, gpu)
    elif share == "auto":
        share = 0.0
        if there_are:
            said = "The cluster has GPUs that its PyTorch cannot use; trials train on CPUs."
    if sweep.search.max_gpu_hours is not None and share == 0:
        raise UserError(
            f"search.max_gpu_hours = {sweep.search.max_gpu_hours:g} is not allowed where trials "
            "get no GPU, as on this cluster; leave it out, or give search.max_hours"
        )
    has_bfloat16 = share > 0 and gpu is not None and gpu.bfloat16
    # Of the encoder, if there is one, because its head trains fast.
    batch_size = sweep.stages[-1].recipe.batch_size / sweep.scaling.num_workers
    if (
        share == 0
        and open_precision
        and _cpus_are_faster_in_bfloat16(sweep.model, batch_size, dataset, machines)
    ):
        has_bfloat16 = True
        said = f"{said} {_ON_CPUS}" if said else _ON_CPUS
    precision = "bfloat16" if has_bfloat16 else "float32"
    scaling = sweep.scaling.model_copy(update={"gpus_per_worker": share})
    _check_room(scaling, nodes, machines.label)
    return _with_precision(sweep, precision).model_copy(update={"scaling": scaling}), said


def _with_precision(sweep: SweepFile, precision: str) -> SweepFile:
    update: dict[str, object] = {}
    if sweep.training.precision == "auto" and sweep.trainable is None:
        update["training"] = sweep.training.model_copy(update={"precision": precision})
    if (
        (encoder := sweep.encoder) is not None
        and not encoder.frozen
        and encoder.training.precision == "auto"
    ):
        recipe = encoder.training.model_copy(update={"precision": precision})
        update["encoder"] = encoder.model_copy(update={"training": recipe})
    return sweep.model_copy(update=update)


def gpu_share(
    sweep: SweepFile,
    workload: Workload | None,
    gpu: Gpu,
    nodes: Iterable[Mapping[str, float]],
    needed: float | None = None,
) -> float:
    """The share of a GPU that each worker gets: 1, or less if several trials share a GPU.

    Up to eight trials share a GPU: as many as fit its memory and the node's CPUs, or fewer if these
    keep it busy. A trial with several workers gets one GPU per worker, or none if the cluster has
    too few. If the workload is unknown, as for a custom loop, each trial gets one. `needed` is the
    GPU memory of a trial in bytes; None estimates it.
    """
    nodes, scaling = list(nodes), sweep.scaling
    if scaling.num_workers > 1:
        whole = ScalingSection(**{**scaling.model_dump(), "gpus_per_worker": 1.0})
        return 1.0 if worker_room(whole, nodes) >= scaling.num_workers else 0.0
    if workload is None:
        return 1.0
    from trainables.engine.workload import busy_share

    busy = max(busy_share(workload, count) for count, _ in _inputs_per_step(sweep.stages))
    by_memory = gpu.memory / (needed or memory_needed(sweep, workload))
    by_cpus = max(
        node.get("CPU", 0.0) / scaling.cpus_per_worker / node["GPU"]
        for node in nodes
        if node.get("GPU", 0.0) >= 1
    )
    return 1.0 / max(1, math.floor(min(by_memory, by_cpus, 1 / busy, _MOST_ON_ONE)))


def memory_needed(sweep: SweepFile, workload: Workload) -> float:
    """Estimated bytes of GPU memory that a trial needs."""
    from trainables.engine.workload import device_memory

    return max(device_memory(workload, *each) for each in _inputs_per_step(sweep.stages))


def _inputs_per_step(stages: Sequence[Stage]) -> list[tuple[int, int]]:
    """Batch sizes of each stage: in training (with all views), and in evaluation."""
    from trainables.losses.registry import loss_class

    return [
        # A plain nn.Module has no views.
        (
            recipe.batch_size * max(getattr(loss_class(name), "views", 1) for name in names),
            recipe.eval_batch_size,
        )
        for _, recipe, _, names in stages
    ]


def workload_of(trained: ModelSection | TrainableSection, dataset: Data) -> Workload | None:
    """The cost of a training step; None for a custom loop."""
    if isinstance(trained, TrainableSection):
        return None
    from trainables.data.core.base import Dataset
    from trainables.engine.workload import measure

    assert isinstance(dataset, Dataset)  # all data are known, except for custom loops
    return measure(trained.name, trained.options, dataset)


def _cpus_are_faster_in_bfloat16(
    model: ModelSection, batch_size: float, dataset: Data, machines: Machines
) -> bool:
    from trainables.data.core.base import Dataset
    from trainables.engine.precision import gains_on_cpus
    from trainables.engine.workload import operations_of_layers

    assert isinstance(dataset, Dataset)  # all data are known, except for custom loops
    operations = operations_of_layers(model.name, model.options, dataset)
    return gains_on_cpus(operations * batch_size) and machines.cpus_have_bfloat16()


def _in_words(share: float, gpu: Gpu) -> str:
    if share == 0:
        return "The cluster has too few GPUs for num_workers; trials train on CPUs."
    trials = round(1 / share)
    size = f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB"
    each = "each worker gets a GPU" if trials == 1 else f"{trials} trials share a GPU"
    return f"scaling.gpus_per_worker = {share:g}: {each} ({size})"


def _check_room(scaling: ScalingSection, nodes: list[dict[str, float]], where: str) -> None:
    """Check that a trial fits, now or once the autoscaler has added nodes; UserError if not."""
    room = worker_room(scaling, nodes)
    if room < scaling.num_workers:
        raise UserError(
            f"scaling: one trial wants num_workers = {scaling.num_workers} × ("
            f"cpus_per_worker = {scaling.cpus_per_worker}, gpus_per_worker = "
            f"{scaling.gpus:g}); {where} has room for {room} such workers"
            f" ({_sizes(nodes)})"
        )


def worker_room(scaling: ScalingSection, nodes: Iterable[Mapping[str, float]]) -> int:
    """Number of workers of one trial that fit into nodes with these resources."""
    return sum(_fitting(scaling, node) for node in nodes)


def _fitting(scaling: ScalingSection, node: Mapping[str, float]) -> int:
    by_cpus = int(node.get("CPU", 0.0) // scaling.cpus_per_worker)
    each, gpus = scaling.gpus, node.get("GPU", 0.0)
    if each == 0:
        return by_cpus
    by_gpus = int(gpus // each) if each >= 1 else int(gpus) * int(1 / each)
    return min(by_cpus, by_gpus)


def _sizes(nodes: list[dict[str, float]]) -> str:
    sizes = Counter((node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes)
    return ", ".join(
        f"{count} {'node' if count == 1 else 'nodes'} of {cpus:g} CPUs and {gpus:g} GPUs"
        for (cpus, gpus), count in sizes.items()
    )
