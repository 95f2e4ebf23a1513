"""Temporary folders that do not stay behind, even if their process is killed."""

import os
import shutil
import tempfile
import time
from pathlib import Path

_SECONDS_TO_LOCK = 60.0  # a younger folder may not be locked yet


def temporary_folder(prefix: str) -> Path:
    """A new folder; those of processes that have ended, with this prefix, are deleted.

    This process holds a lock on its folder until it ends, also after ``os.exec``.
    """
    import fcntl  # not on Windows

    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _delete_if_left(left)
    folder = tempfile.mkdtemp(prefix=prefix)
    descriptor = os.open(folder, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return Path(folder)


def _delete_if_left(folder: Path) -> None:
    import fcntl

    try:
        if time.time() - folder.stat().st_mtime < _SECONDS_TO_LOCK:
            return
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # another user's, or just deleted
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # its process runs
        pass
    finally:
        os.close(descriptor)
