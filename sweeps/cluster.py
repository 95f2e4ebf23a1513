"""Ray: starting or joining it quietly, and what it has room for."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sweeps.errors import UserError
from sweeps.sweep_file import ScalingSection

_LOCAL_SETTINGS = {
    # A driver under `uv run` would build a second environment for the workers; they share ours.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Tune's actors run in an environment of their own, so processes started ahead only cost.
    "RAY_prestart_worker_first_driver": "0",
    # Trials keep their own records; Tune's loggers, snapshots and reports would do so again.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",
    # The searcher itself waits for a free slot, so that workers start side by side.
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a failed trial reports its reason only
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_SLOTS_KNOWN_FOR_SECONDS = 5.0


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Start Ray on this machine, or join the cluster at an address; leave it at the end.

    A Ray session that the process has already is used, and left as it is.

    Raises:
        UserError: No cluster answers at the address.
    """
    for name, value in _LOCAL_SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield
        return
    _check_answers(address)
    try:
        ray.init(
            address=address or "local",
            include_dashboard=False if address is None else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        if address is None:
            raise
        raise _no_cluster(address, error) from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str | None) -> None:
    """Ask a host:port at once; Ray itself would go on trying for minutes."""
    host, separator, port = (address or "").rpartition(":")
    if address is None or not separator or "/" in address or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> UserError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return UserError(
        f"--address = {address!r}: no Ray cluster answers there ({reason}); allowed: the "
        "host:port that `ray start --head` printed, or 'auto'"
    )


def check_room(scaling: ScalingSection, address: str | None) -> None:
    """Make sure that one trial fits, rather than wait for ever.

    Raises:
        UserError: It does not.
    """
    import ray

    has = ray.cluster_resources()
    where = f"the cluster at {address}" if address else "this machine"
    faults = []
    for key, resource, each in (
        ("cpus_per_worker", "CPU", float(scaling.cpus_per_worker)),
        ("gpus_per_worker", "GPU", scaling.gpus_per_worker),
    ):
        wanted = each * scaling.num_workers
        if wanted > has.get(resource, 0.0):
            faults.append(
                f"scaling: one trial wants num_workers × {key} = {scaling.num_workers} × {each:g} "
                f"= {wanted:g} {resource}s; {where} has {has.get(resource, 0.0):g}"
            )
    if scaling.num_workers > 1 and not faults:
        faults.append(
            f"scaling.num_workers = {scaling.num_workers} is not allowed: trials of several "
            "workers are not there yet; allowed: 1"
        )
    if faults:
        raise UserError("\n".join(faults))


def concurrent_trials(scaling: ScalingSection) -> int:
    """How many trials the cluster has room for now."""
    import ray

    has = ray.cluster_resources()
    rooms = [has.get("CPU", 0.0) // (scaling.cpus_per_worker * scaling.num_workers)]
    if scaling.gpus_per_worker:
        rooms.append(has.get("GPU", 0.0) // (scaling.gpus_per_worker * scaling.num_workers))
    limit = scaling.max_concurrent or int(min(rooms))
    return max(1, min(int(min(rooms)), limit))


def slots(scaling: ScalingSection) -> Callable[[], int]:
    """A function that tells :func:`concurrent_trials`, asking the cluster every few seconds."""
    known, asked = concurrent_trials(scaling), time.monotonic()

    def current() -> int:
        nonlocal known, asked
        if time.monotonic() - asked > _SLOTS_KNOWN_FOR_SECONDS:
            known, asked = concurrent_trials(scaling), time.monotonic()
        return known

    return current
