"""The GPUs and CPUs of a Ray cluster, as PyTorch sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

from sweeps.cluster.ray_internals import nodes_to_come
from sweeps.errors import SweepFailedError, first_line
from sweeps.messages.reporter import Reporter
from sweeps.planning.gpu_share import Gpu

_SECONDS_FOR_A_GPU = 900.0


def weakest_gpu(reporter: Reporter) -> Gpu | None:
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
    if not (gpus := [Gpu(*gpu) for gpu in found if gpu is not None]):
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


def cpus_have_bfloat16() -> bool:
    """False if an autoscaler may add nodes, because their CPUs are unknown."""
    from trainables.engine.precision import cpu_has_bfloat16

    if nodes_to_come():
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
