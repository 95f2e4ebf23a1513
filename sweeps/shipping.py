"""What goes to a cluster with a sweep: its resolved file and the user's own Python modules.

Nothing else: no data, no version control, no settings, keys or other files. calsweep itself and
all packages are installed on the cluster's nodes, as `cluster.yaml` does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from sweeps.errors import UserError
from sweeps.loading import dump_sweep
from sweeps.sweep_file import SweepFile

SWEEP_FILE = "calsweep-sweep.yaml"
_LARGEST_TOTAL = 10 * 2**20  # bytes
_SKIPPED = ("node_modules", "site-packages", "__pycache__")
_PATH_OPTIONS = ("train", "test", "root")


def check_reachable(storage: str, sweep: SweepFile | None = None) -> None:
    """Make sure that what a sweep names means the same on another machine.

    Raises:
        UserError: The storage or the data are given by a relative path, or the tracking address
            holds a password, which would be kept with the job.
    """
    if "://" not in storage and not Path(storage).is_absolute():
        raise UserError(
            f"storage = {storage!r} is a folder of this machine; allowed for a cluster: a URI such "
            "as s3://bucket/calsweep, or the absolute path of a folder that all nodes share "
            "(set by --storage or CALSWEEP_STORAGE)"
        )
    if sweep is None:
        return
    for name in _PATH_OPTIONS:
        path = sweep.dataset.options.get(name)
        if isinstance(path, str) and "://" not in path and not Path(path).is_absolute():
            raise UserError(
                f"dataset.{name} = {path!r} is relative to this folder, and data are not sent; "
                "allowed for a cluster: a URI, or an absolute path that all nodes know"
            )
    if sweep.tracking.uri and urlsplit(sweep.tracking.uri).password:
        raise UserError(
            "tracking.uri holds a password, which would be kept with the job for all to read; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD on the cluster's nodes"
        )


def stage(source: Path, target: Path, sweep: SweepFile | None) -> list[str]:
    """Copy what is sent into an empty folder.

    Args:
        source: The user's folder.
        target: The folder to fill.
        sweep: Its resolved file goes along; None where the cluster has it already.

    Returns:
        The relative paths of the user's modules.

    Raises:
        UserError: There are too many of them.
    """
    names, total = [], 0
    for path in _modules(source):
        total += path.stat().st_size
        if total > _LARGEST_TOTAL:
            raise UserError(
                f"the Python modules below {source} are more than {_LARGEST_TOTAL // 2**20} MiB; "
                "submit from a folder that holds only those that the sweep needs"
            )
        name = path.relative_to(source)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
        names.append(str(name))
    if sweep is not None:
        (target / SWEEP_FILE).write_text(dump_sweep(sweep))
    return names


def keep_what_was_sent() -> None:
    """Move into a copy of the folder that was sent, as the driver of a job.

    While the driver connects, Ray may delete that folder and make it anew (seen where the head has
    no CPUs), and imports fail in a working folder that is gone.
    """
    copy = tempfile.mkdtemp(prefix="calsweep-job-")
    shutil.copytree(".", copy, dirs_exist_ok=True)
    os.chdir(copy)


def _modules(source: Path) -> Iterator[Path]:
    """All Python modules below a folder, but hidden ones and those of installed packages."""
    for folder, below, files in os.walk(source):
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".")
            and name not in _SKIPPED
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("."):
                yield Path(folder) / name
