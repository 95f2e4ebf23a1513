"""The Ray session that all tests of a process share, as Ray takes seconds to start."""

import sys
from contextlib import ExitStack

from sweeps.cluster import connection

_OPEN = ExitStack()


def start() -> None:
    """Starts Ray on this machine, if it does not run yet."""
    import ray

    if not ray.is_initialized():
        _OPEN.enter_context(connection.connected(None))


def end() -> None:
    """Ends the session, for a test that starts Ray in its own way."""
    _OPEN.close()
    if "ray" in sys.modules:  # ``calsweep.run`` keeps Ray for a next sweep
        sys.modules["ray"].shutdown()
