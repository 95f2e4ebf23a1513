"""Versions of Ray: this machine's and a cluster's."""

from __future__ import annotations

import re
from importlib.metadata import version

from sweeps.errors import UserError

OLDEST = (2, 55)
TOO_NEW = (3, 0)


def check_jobs_version(cluster: str, url: str) -> str | None:
    """A message if the cluster has another version of Ray, before a job is sent there; else None.

    Raises:
        UserError: calsweep does not run with that version.
    """
    ours = version("ray")
    if cluster == ours:
        return None
    major, minor = (int(part) for part in cluster.split(".")[:2])
    if not OLDEST <= (major, minor) < TOO_NEW:
        raise UserError(
            f"the cluster at {url} runs Ray {cluster} (this machine {ours}); calsweep needs Ray "
            f"{_text(OLDEST)} or newer, below {_text(TOO_NEW)}, on the cluster"
        )
    return f"the cluster at {url} runs Ray {cluster}, this machine {ours}: the job uses the former"


def driver_mismatch(reason: str) -> str | None:
    """A message about the versions if Ray refuses a driver because of them; else None."""
    found = re.findall(r"Ray: (\S+)\s+Python: (\S+)", reason)
    if len(found) != 2:
        return None
    (cluster, its_python), (ours, our_python) = found
    return (
        f"the cluster runs Ray {cluster} on Python {its_python}, this machine Ray {ours} on Python "
        f"{our_python}, and both must be the same; install them here, or send the sweep as a job "
        "by `calsweep submit`"
    )


def _text(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
