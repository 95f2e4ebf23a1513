""":mod:`sweeps.cluster.ray_internals` and its counterpart on workers, also if Ray lacks a name."""

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from ray._private.state import state
from ray.core.generated.autoscaler_pb2 import ClusterConfig

from sweeps.cluster.ray_internals import (
    agents_may_be_slow,
    killed_for_memory,
    nodes_to_come,
    processes_kept,
)
from trainables.runtime.hosts import provides
from trainables.wrappers.ray_internals import release_abandoned_placement_groups


def test_what_the_autoscaler_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ClusterConfig()
    for cpus, count in ((4, 2), (16, 1)):
        group = config.node_group_configs.add(max_count=count)
        group.resources["CPU"] = cpus
    monkeypatch.setattr(type(state), "get_cluster_config", lambda _: config)
    assert nodes_to_come() == [{"CPU": 4}, {"CPU": 4}, {"CPU": 16}]
    monkeypatch.setattr(type(state), "get_cluster_config", lambda _: None)
    assert nodes_to_come() == []


@pytest.mark.parametrize(
    ("use", "module", "owner", "name"),
    [
        (
            agents_may_be_slow,
            "ray._private.node",
            "Node",
            "start_raylet",
        ),
        (
            lambda: killed_for_memory(print),
            "ray.air.execution._internal.actor_manager",
            "RayActorManager",
            "_actor_task_failed",
        ),
        (
            lambda: processes_kept(int, int),
            "ray.tune.execution.tune_controller",
            "TuneController",
            "_maybe_reuse_cached_actor",
        ),
    ],
)
def test_what_needs_something_that_ray_lacks_is_off_and_says_so_once(
    use: Callable[[], AbstractContextManager[None]],
    module: str,
    owner: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kind = getattr(importlib.import_module(module), owner)
    monkeypatch.delattr(kind, name)
    before = dict(vars(kind))
    provides.cache_clear()
    for _ in range(2):
        with use():
            assert dict(vars(kind)) == before
    provides.cache_clear()
    (line,) = caplog.messages
    assert line.endswith(f"is off: this version has no {module}:{owner}.{name}")


def test_without_a_way_to_ask_for_them_there_are_no_nodes_and_no_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(type(state), "get_cluster_config")
    monkeypatch.delattr(type(state), "_connect_and_get_accessor", raising=False)  # not in 2.55
    provides.cache_clear()
    found: list[Any] = [nodes_to_come(), release_abandoned_placement_groups()]
    provides.cache_clear()
    assert found == [[], False]
