"""The driver's uses of Ray's private API; for the workers see :mod:`trainables.wrappers`.

Each use checks that what it needs exists; otherwise it is turned off and logged once. Each
docstring says why no public API suffices. Ray is imported inside functions, because the command
imports this module before it knows whether it needs Ray.
"""

from __future__ import annotations

import os
import random
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pkgutil import resolve_name
from typing import Any

from sweeps.cluster.worker_server import worker_server
from sweeps.messages.reporter import logger
from trainables.runtime.hosts import provides
from trainables.wrappers import forked_workers

_ACTORS = "ray.air.execution._internal.actor_manager:RayActorManager"
_TUNE = "ray.tune.execution.tune_controller"
_SHORTAGE = "running low on memory"  # in Ray's message about a killed process

LOCAL_SETTINGS = {
    # Under `uv run`, Ray would build a second environment for the workers; they share ours.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Tune's actors use their own runtime environment, so processes that Ray starts ahead are
    # wasted.
    "RAY_prestart_worker_first_driver": "0",
    # Trials keep their own records, so Tune's loggers, snapshots and reports are redundant.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
    # The searcher itself waits for a free slot, so that workers start concurrently.
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a failed trial reports only its reason
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",  # no process would receive them
    # With Ray's default of 15, workers hardly run next to other busy programs. With 0, Ray's own
    # calls still take less than a second; a node counts as dead after 10 s.
    "RAY_worker_niceness": "0",
    # On a busy machine, Ray's processes start more slowly than Ray's defaults allow.
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "180",
}
"""Environment variables of the driver and of what it starts, where the user has not set them.

``ray.init`` and ``tune.RunConfig`` have no arguments for them. Ray ignores unknown ones.
"""

SECONDS_TO_STOP = "RAY_JOB_STOP_WAIT_TIME_S"
"""Environment variable of a job: how long it may take to end once it was asked to.

Why: ``JobSubmissionClient.stop_job`` has no argument for it; after 3 s the driver is killed.
Test: tests/sweeps/jobs/test_jobs.py::test_a_sweep_is_submitted_stopped_and_resumed
"""

JOB_CONFIGURATION = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Environment variable in which Ray passes a job's configuration."""


def check_token(address: str) -> None:
    """Make one call to the cluster at ``host:port`` with the token of this user.

    Raises ``ray.exceptions.AuthenticationError`` if the cluster refuses it, or there is none.

    Why: with a wrong token, ``ray.init`` tries for two minutes and prints each failure.
    Test: tests/sweeps/jobs/test_jobs.py::test_a_driver_with_a_wrong_token_ends_at_once
    """
    setup = "ray._private.authentication.authentication_token_setup"
    names = ("ray._raylet:GcsClient", f"{setup}:ensure_token_if_auth_enabled")
    if not provides("checking the token before joining a cluster", *names):
        return
    import ray

    client, ensure_token = map(resolve_name, names)
    ensure_token(create_token_if_missing=False)
    try:
        with _silent():
            client(address=address).internal_kv_get(b"calsweep", None, timeout=5.0)
    except ray.exceptions.AuthenticationError:
        raise
    except Exception as error:  # ray.init tries longer, and reports what it finds
        logger.info("the cluster does not answer a first call: %s", error)


@contextmanager
def _silent() -> Iterator[None]:
    """Context: Ray's C++ code does not print to stderr."""
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def is_driver_of_a_job() -> bool:
    """Whether this process is the driver of a job on a Ray cluster.

    Why: ``ray.get_runtime_context()`` works only after connecting, which is too late.
    Test: tests/sweeps/jobs/test_jobs.py::test_a_sweep_is_submitted_stopped_and_resumed
    """
    return JOB_CONFIGURATION in os.environ


def nodes_to_come() -> list[dict[str, float]]:
    """The resources of each node that the autoscaler may start; empty without an autoscaler.

    Why: no public API says what an autoscaler may start. Without it, a sweep would be refused on a
        cluster whose nodes have not started yet.
    Test: tests/sweeps/cluster/test_ray_internals.py::test_what_the_autoscaler_may_start
    """
    if not provides("using nodes to come", "ray._private.state:state.get_cluster_config"):
        return []
    from ray._private.state import state

    config = state.get_cluster_config()
    groups = config.node_group_configs if config is not None else ()
    return [dict(group.resources) for group in groups for _ in range(group.max_count)]


@contextmanager
def workers_forked(launcher: str = forked_workers.__file__) -> Iterator[None]:
    """Context: Ray, started in it, has its workers forked (trainables/wrappers/forked_workers.py).

    `launcher` is the program that asks for each.

    Why: Ray starts each worker as a Python of its own, and has no setting for it.
    Measured: without it, a further trial on 50,000 images of CIFAR's size takes 490 to 520 MiB of
        its own instead of 180 to 220, and the quickstart 20.7 instead of 18.6 s, 7.7 instead of
        5.8 s of these until its first epoch (Ray 2.60, medians of two in turns).
    Upstream: ray-project/ray#31915.
    Test: tests/sweeps/cluster/test_forked_workers.py
    """
    names = "ray._private.parameter:RayParams", "ray._private.workers.setup_worker"
    if sys.platform != "linux" or not provides("forking workers", *names):
        yield
        return
    try:
        server = os.environ.get(forked_workers.ADDRESS) or worker_server()
    except OSError:  # logged when trials start
        yield
        return
    from ray._private import parameter

    make_parameters = parameter.RayParams

    def with_launcher(*arguments: Any, **options: Any) -> Any:
        options["setup_worker_path"] = launcher
        return make_parameters(*arguments, **options)

    with (
        variable_set(forked_workers.ADDRESS, server),
        _replaced(parameter, RayParams=with_launcher),
    ):
        yield


@contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Context: an environment variable has this value."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """Context: attributes of a module or class have other values."""
    before = {name: getattr(owner, name) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def agents_may_be_slow() -> Iterator[None]:
    """Context: Ray, started in it, does not wait for the ports of its agents.

    A raylet exits if its agents have not written their ports within 15 seconds. On a busy machine
    their imports take longer. So this context chooses the ports and writes them for the raylet
    before it starts. Clients of an agent wait for it, up to ``RAY_agent_register_timeout_ms``. A
    node that does not start leaves no processes behind.

    Why: the 15 seconds are compiled into Ray, and ``ray.init`` has no arguments for these ports.
    Measured: without it, with agents that need 20 seconds as in the test, none of three starts
        succeeds, which takes 201 s; with it, Ray starts in 29 s (Ray 2.60, load 30 on two cores).
    Upstream: ray-project/ray#65983.
    Test: tests/sweeps/cluster/test_connection.py::test_ray_starts_though_its_agents_are_slow
    """
    if not provides(
        "starting Ray on a busy machine",
        "ray._private.parameter:RayParams",
        "ray._private.node:Node.start_raylet",
        "ray._private.node:Node.kill_all_processes",
        "ray._raylet:persist_port",
    ):
        yield
        return
    from ray._private import node, parameter
    from ray._raylet import persist_port  # type: ignore[attr-defined]  # Cython has no types

    make_parameters, start_raylet = parameter.RayParams, node.Node.start_raylet
    ports = _free_ports(
        "metrics_agent_port",
        "metrics_export_port",
        "dashboard_agent_listen_port",
        "runtime_env_agent_port",
    )
    begun = []

    def with_ports(*arguments: Any, **options: Any) -> Any:
        return make_parameters(*arguments, **{**options, **ports})

    def start_with_ports(self: Any, *arguments: Any, **options: Any) -> None:
        begun.append(self)
        for name, port in ports.items():
            persist_port(self.get_session_dir_path(), self.node_id, name, port)
        start_raylet(self, *arguments, **options)

    try:
        with (
            _replaced(parameter, RayParams=with_ports),
            _replaced(node.Node, start_raylet=start_with_ports),
        ):
            yield
    except BaseException:
        for each in begun:
            with suppress(Exception):
                each.kill_all_processes(check_alive=False, allow_graceful=False)
        raise


def killed_for_memory(on_shortage: Callable[[str], object]) -> AbstractContextManager[None]:
    """Context: Tune treats a trial that was killed for lack of memory as dead.

    Otherwise Tune raises the error out of ``fit()``, which ends all trials. `on_shortage` gets
    Ray's message, just before Tune's callbacks are called for the trial.

    Why: Tune has no argument or callback for it.
    Measured: without it, Ray kills trials of the test five times in two minutes, because the sweep
        starts them again at once; each kill counts against its trial, which fails after the
        fourth. With it, none counts, and fewer trials run for a while (Ray 2.60).
    Test: tests/sweeps/test_low_memory.py::test_a_trial_killed_by_the_memory_monitor_is_retried
    """
    if not provides(
        "retrying trials that were killed for lack of memory",
        f"{_ACTORS}._actor_task_failed",
        f"{_ACTORS}._actor_start_failed",
    ):
        return nullcontext()
    from ray.air.execution._internal.actor_manager import RayActorManager
    from ray.exceptions import OutOfMemoryError, RayActorError

    def reporting(failed: Callable[..., None]) -> Callable[..., None]:
        def report(self: Any, exception: Exception, **actor: Any) -> None:
            if isinstance(exception, OutOfMemoryError) or _SHORTAGE in str(exception):
                on_shortage(str(exception))
            if isinstance(exception, OutOfMemoryError):
                exception = RayActorError(error_msg=str(exception))
            failed(self, exception=exception, **actor)

        return report

    return _replaced(
        RayActorManager,
        _actor_task_failed=reporting(RayActorManager._actor_task_failed),
        _actor_start_failed=reporting(RayActorManager._actor_start_failed),
    )


def job_of_placement_group(group: Mapping[str, Any]) -> str:
    """Id of the job that made a placement group of Ray's table: the end of the group's own id.

    If a later version of Ray makes other ids, a driver takes all room.

    Why: the table names no job, and Ray's state API needs its dashboard. Without it the first sweep
        on a cluster would keep its processes, and a second one would wait for its end.
    Test: tests/sweeps/cluster/test_two_sweeps.py::test_two_sweeps_share_a_cluster
    """
    return str(group["placement_group_id"][-8:])


@contextmanager
def processes_kept(slots: Callable[[], int], running: Callable[[], int]) -> Iterator[None]:
    """Context: Tune keeps the processes of ended trials, and those that are starting.

    Tune keeps one idle process, plus one per waiting trial. No trial waits while the last ones of
    the search run, so the finalists would need new processes. Tune also gives an idle process to a
    trial whose own process is starting, and discards the starting one. So short trials would run
    one after the other on one slot. `slots` and `running` return how many trials may run, and run.

    Why: ``TuneConfig`` has no arguments for this.
    Measured: without it, all 16 trials of ``test_a_process_that_starts_late_gets_trials`` run in
        one process instead of two, so half of the slots stay empty (Ray 2.60). A sweep with four
        slots, nine trials and three finalists starts six processes instead of four.
    Upstream: ray-project/ray#36020 explains why idle processes are taken first.
    Test: tests/sweeps/cluster/test_ray_tune.py::test_finalists_reuse_the_processes_of_the_search
    Test: tests/sweeps/cluster/test_ray_tune.py::test_a_process_that_starts_late_gets_trials
    Test: tests/sweeps/cluster/test_two_sweeps.py::test_two_sweeps_share_a_cluster
    """
    if not provides(
        "keeping the processes of trials",
        f"{_TUNE}:_ObjectCache.cache_object",
        f"{_TUNE}:_ObjectCache.flush_cached_objects",
        f"{_TUNE}:TuneController._maybe_reuse_cached_actor",
    ):
        yield
        return
    from ray.tune.execution import tune_controller

    class Kept(tune_controller._ObjectCache):
        def cache_object(self, key: Any, obj: Any) -> bool:
            if self._num_cached_objects >= slots():
                return bool(super().cache_object(key, obj))
            self._cached_objects[key].append(obj)
            self._num_cached_objects += 1
            return True

        def flush_cached_objects(self, force_all: bool = False) -> Iterator[Any]:
            if force_all:
                yield from super().flush_cached_objects(force_all)
                return
            # There is less room after a node has gone, its memory ran short, or while another sweep
            # waits. Processes for Tune's own waiting trials are kept.
            surplus = self._num_cached_objects + running() - slots()
            for key, idle in self._cached_objects.items():
                while surplus > 0 and len(idle) > self._max_num_objects[key]:
                    surplus -= 1
                    self._num_cached_objects -= 1
                    yield idle.pop(0)

    controller = tune_controller.TuneController
    reuse = controller._maybe_reuse_cached_actor

    def reuse_unless_starting(self: Any, trial: Any) -> bool:
        own = self._trial_to_actor.get(trial)
        # A process that waits for room is not starting, because the idle process takes that room.
        if own is not None and self._actor_manager.is_actor_started(own):
            return trial in self._resetting_trials
        return bool(reuse(self, trial))

    with (
        _replaced(tune_controller, _ObjectCache=Kept),
        _replaced(controller, _maybe_reuse_cached_actor=reuse_unless_starting),
    ):
        yield


def no_long_waits() -> AbstractContextManager[None]:
    """Context: Tune's loop also continues while no trial runs and the next one has to wait.

    Why: Tune waits ten minutes for the next trial. Meanwhile it releases no process to a sweep with
        a higher priority, and no request to drop or retry a trial is read.
    Measured: without it, a sweep keeps one of three CPUs idle as long as the other one runs (Ray
        2.60).
    Test: tests/sweeps/cluster/test_two_sweeps.py::test_two_sweeps_share_a_cluster
    """
    if not provides("short waits", f"{_TUNE}:TuneController._update_trial_queue"):
        return nullcontext()
    from ray.tune.execution.tune_controller import TuneController

    update = TuneController._update_trial_queue

    def look_once(self: Any, blocking: bool = False, timeout: float = 0.0) -> bool:
        return bool(update(self, blocking, timeout=0.1))  # after each look, it sleeps for a second

    return _replaced(TuneController, _update_trial_queue=look_once)


_PORTS = range(20_000, 32_000)  # below the ports that Linux and Ray assign on demand


def _free_ports(*names: str) -> dict[str, int]:
    candidates = iter(random.sample(_PORTS, len(_PORTS)))
    return {name: next(port for port in candidates if _is_free(port)) for name in names}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
