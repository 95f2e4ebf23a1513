"""What :mod:`sweeps.cluster.internals` and its like on the workers lean on in Ray."""

import importlib
import logging
from pathlib import Path

import pytest
import ray
from ray._private.state import state
from ray.core.generated.autoscaler_pb2 import ClusterConfig

from sweeps.cluster.internals import (
    CHATTY_LOGGERS,
    JOB_CONFIGURATION,
    LOCAL_SETTINGS,
    SECONDS_TO_STOP,
    nodes_to_come,
)
from trainables.wrappers.internals import TRAIN_SETTINGS


def test_ray_still_reads_what_is_set() -> None:
    source = b"".join(path.read_bytes() for path in Path(ray.__file__).parent.rglob("*.py"))
    compiled = Path(ray._raylet.__file__).read_bytes()
    for name in (*LOCAL_SETTINGS, *TRAIN_SETTINGS, SECONDS_TO_STOP, JOB_CONFIGURATION):
        # What is compiled in is named without the prefix.
        known = name.encode() in source or name.removeprefix("RAY_").encode() in compiled
        assert known, name


def test_the_chatty_loggers_are_there() -> None:
    for name in CHATTY_LOGGERS:
        importlib.import_module(name)
        assert isinstance(logging.root.manager.loggerDict.get(name), logging.Logger), name


def test_what_the_autoscaler_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ClusterConfig()
    for cpus, count in ((4, 2), (16, 1)):
        group = config.node_group_configs.add(max_count=count)
        group.resources["CPU"] = cpus
    monkeypatch.setattr(state, "get_cluster_config", lambda: config)
    assert nodes_to_come() == [{"CPU": 4}, {"CPU": 4}, {"CPU": 16}]
    monkeypatch.setattr(state, "get_cluster_config", lambda: None)
    assert nodes_to_come() == []
