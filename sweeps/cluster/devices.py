"""Selects device and precision of trials if the sweep file says ``auto``, once, at the start."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sweeps.cluster.connection import all_nodes, worker_room
from sweeps.cluster.ray_internals import nodes_to_come
from sweeps.errors import SweepFailedError, UserError, first_line
from sweeps.messages.reporter import LOG, Reporter
from sweeps.sweep_file.schema import ScalingSection, SweepFile

if TYPE_CHECKING:
    from trainables.data.core.base import Data
    from trainables.engine.workload import Workload

_MOST_ON_ONE = 8  # trials that share a GPU: each needs a context, and the GPU serves them in turn
_SECONDS_FOR_A_GPU = 900.0
_ON_CPUS = "training.precision = bfloat16, in which these CPUs are faster than in float32."


@dataclass(frozen=True)
class Gpu:
    """A GPU of the cluster; memory in bytes."""

    name: str
    memory: int
    bfloat16: bool


def settle_devices(
    sweep: SweepFile, dataset: Data, reporter: Reporter = LOG
) -> tuple[SweepFile, str | None]:
    """The sweep with its ``auto`` values replaced, and a message about them.

    ``gpus_per_worker`` becomes a number. ``precision`` becomes bfloat16 if all GPUs support it, or,
    for trials without a GPU, if all CPUs support it and a step is large enough to gain; otherwise
    float32. Explicit values stay. If both are explicit, no node is examined.

    Raises:
        UserError: The sweep has a budget of GPU hours, but there are no GPUs.
        SweepFailedError: The cluster's GPUs cannot be examined.
    """
    share = sweep.scaling.gpus_per_worker
    open_precision = sweep.trainable is None and any(
        recipe.precision == "auto" for _, recipe in sweep.recipes
    )
    nodes = all_nodes()
    there_are = any(node.get("GPU", 0.0) >= 1 for node in nodes)
    wanted = share == "auto" or (share > 0 and open_precision)
    gpu = _weakest_gpu(reporter) if wanted and there_are else None
    said = None
    if share == "auto" and gpu is not None:
        share = gpu_share(sweep, workload_of(sweep, dataset), gpu, nodes)
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
    if share == 0 and open_precision and _cpus_are_faster_in_bfloat16(sweep, dataset):
        has_bfloat16 = True
        said = f"{said} {_ON_CPUS}" if said else _ON_CPUS
    precision = "bfloat16" if has_bfloat16 else "float32"
    scaling = sweep.scaling.model_copy(update={"gpus_per_worker": share})
    return _with_precision(sweep, precision).model_copy(update={"scaling": scaling}), said


def _with_precision(sweep: SweepFile, precision: str) -> SweepFile:
    update: dict[str, Any] = {}
    if sweep.training.precision == "auto" and sweep.trainable is None:
        update["training"] = sweep.training.model_copy(update={"precision": precision})
    encoder = sweep.encoder
    if encoder is not None and encoder.training.precision == "auto":
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
    scaling, nodes = sweep.scaling, list(nodes)
    if scaling.num_workers > 1:
        whole = ScalingSection(**{**scaling.model_dump(), "gpus_per_worker": 1.0})
        return 1.0 if worker_room(whole, nodes) >= scaling.num_workers else 0.0
    if workload is None:
        return 1.0
    from trainables.engine.workload import busy_share

    busy = max(busy_share(workload, count) for count, _ in inputs_per_step(sweep))
    needed = needed or memory_needed(sweep, workload)
    by_memory = gpu.memory / needed
    by_cpus = max(
        node.get("CPU", 0.0) / scaling.cpus_per_worker / node["GPU"]
        for node in nodes
        if node.get("GPU", 0.0) >= 1
    )
    return 1.0 / max(1, math.floor(min(by_memory, by_cpus, 1 / busy, _MOST_ON_ONE)))


def memory_needed(sweep: SweepFile, workload: Workload) -> float:
    """Estimated bytes of GPU memory that a trial needs."""
    from trainables.engine.workload import device_memory

    return max(device_memory(workload, *each) for each in inputs_per_step(sweep))


def inputs_per_step(sweep: SweepFile) -> list[tuple[int, int]]:
    """Batch sizes of each stage: in training (with all views), and in evaluation."""
    from trainables.losses.registry import loss_class

    stages = [(sweep.training, [loss.name for loss in sweep.losses])]
    if sweep.encoder is not None:
        stages.append((sweep.encoder.training, [sweep.encoder.loss.name]))
    return [
        # A plain nn.Module has no views.
        (
            recipe.batch_size * max(getattr(loss_class(name), "views", 1) for name in names),
            recipe.eval_batch_size,
        )
        for recipe, names in stages
    ]


def workload_of(sweep: SweepFile, dataset: Data) -> Workload | None:
    """The cost of a training step; None for a custom loop."""
    if sweep.trainable is not None:
        return None
    from trainables.data.core.base import Dataset
    from trainables.engine.workload import measure

    assert isinstance(dataset, Dataset)  # all data are known, except for custom loops
    return measure(sweep.model.name, sweep.model.options, dataset)


def _weakest_gpu(reporter: Reporter) -> Gpu | None:
    """The cluster's weakest GPU, by one node of each type; None if PyTorch can use none.

    No GPU is occupied, because other sweeps may use all of them. Only if no node with a GPU has
    started yet, a task asks for one, which makes the autoscaler start it.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    look = ray.remote(num_cpus=0)(_look)
    tasks = [
        look.options(scheduling_strategy=On(node, soft=False)).remote()
        for node in _nodes_of_each_type()
    ]
    if not tasks:
        reporter.stage("Waiting for a node with a GPU to start")
        tasks = [look.options(num_gpus=0.01).remote()]
    try:
        found = ray.get(tasks, timeout=_SECONDS_FOR_A_GPU)
    except ray.exceptions.RayError as error:  # of one node, or none has started
        raise SweepFailedError(
            f"the cluster's GPUs cannot be examined ({first_line(error)}). The sweep is unchanged: "
            "try again, or give scaling.gpus_per_worker and training.precision"
        ) from None
    gpus = [Gpu(*gpu) for gpu in found if gpu is not None]
    if not gpus:
        return None
    smallest = min(gpus, key=lambda gpu: gpu.memory)
    return replace(smallest, bfloat16=all(gpu.bfloat16 for gpu in gpus))


def _nodes_of_each_type() -> list[str]:
    """Ids of living nodes with GPUs, one for each type of accelerator."""
    import ray

    found: dict[frozenset[str], str] = {}
    for node in ray.nodes():
        resources = node["Resources"]
        if node["Alive"] and resources.get("GPU", 0.0) >= 1:
            kind = frozenset(name for name in resources if name.startswith("accelerator_type:"))
            found.setdefault(kind, node["NodeID"])
    return list(found.values())


_ASK_TORCH = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
every = [torch.cuda.get_device_properties(number) for number in range(count)]
least = min(every, key=lambda each: each.total_memory, default=None)
def has_bfloat16(number):
    with torch.cuda.device(number):
        return torch.cuda.is_bf16_supported(including_emulation=False)
bfloat16 = all(map(has_bfloat16, range(count)))
print(json.dumps(least and (least.name, least.total_memory, bfloat16)))
"""
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def _look() -> tuple[str, int, bool] | None:
    """The weakest GPU of this node: name, bytes of memory, and whether all support bfloat16.

    Ray hides all GPUs from a task that reserves none, so PyTorch is asked in a process that sees
    those of the node.
    """
    import psutil

    environment = {name: value for name, value in os.environ.items() if name not in _VISIBLE}
    with suppress(psutil.Error):  # of the raylet, which may be restricted to some of the GPUs
        of_node = psutil.Process(os.getppid()).environ()
        environment |= {name: of_node[name] for name in _VISIBLE if name in of_node}
    asked = [sys.executable, "-c", _ASK_TORCH]
    said = subprocess.run(asked, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(said.stdout.splitlines()[-1])
    return None if found is None else tuple(found)


def _cpus_are_faster_in_bfloat16(sweep: SweepFile, dataset: Data) -> bool:
    """False if an autoscaler may add nodes, because their CPUs are unknown."""
    from trainables.data.core.base import Dataset
    from trainables.engine.precision import cpu_has_bfloat16, gains_on_cpus
    from trainables.engine.workload import operations_of_layers

    assert isinstance(dataset, Dataset)  # all data are known, except for custom loops
    operations = operations_of_layers(sweep.model.name, sweep.model.options, dataset)
    _, recipe = sweep.recipes[-1]  # of the encoder, if there is one, because its head trains fast
    batch_size = recipe.batch_size / sweep.scaling.num_workers
    if not gains_on_cpus(operations * batch_size) or nodes_to_come():
        return False
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    here = ray.get_runtime_context().get_node_id()
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    others = [node["NodeID"] for node in nodes if node["NodeID"] != here]
    if len(others) < len(nodes) and not cpu_has_bfloat16():
        return False
    look = ray.remote(num_cpus=0)(cpu_has_bfloat16)
    asked = [look.options(scheduling_strategy=On(node, soft=False)).remote() for node in others]
    try:
        return all(ray.get(asked))
    except ray.exceptions.RayError:  # a node has gone, and others may replace it
        return False


def _in_words(share: float, gpu: Gpu) -> str:
    if share == 0:
        return "The cluster has too few GPUs for num_workers; trials train on CPUs."
    trials = round(1 / share)
    size = f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB"
    each = "each worker gets a GPU" if trials == 1 else f"{trials} trials share a GPU"
    return f"scaling.gpus_per_worker = {share:g}: {each} ({size})"
