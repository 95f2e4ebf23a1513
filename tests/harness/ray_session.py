"""The Ray session that all tests of a process share, as Ray takes seconds to start."""

import os
import sys
from contextlib import ExitStack

from sweeps.cluster import connection
from tests.harness.forks import worker_server
from trainables.wrappers.forked_workers import ADDRESS

_OPEN = ExitStack()


def start() -> None:
    """Starts Ray on this machine, if it does not run yet."""
    import ray

    if not ray.is_initialized():
        os.environ[ADDRESS] = worker_server()
        _OPEN.enter_context(connection.connected(None))


def end() -> None:
    """Ends the session, for a test that starts Ray in its own way."""
    _OPEN.close()
    os.environ.pop(ADDRESS, None)
    if "ray" in sys.modules:  # ``calsweep.run`` keeps Ray for a next sweep
        sys.modules["ray"].shutdown()
