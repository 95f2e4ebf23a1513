"""The driver's log, a file in the sweep's folder instead of the terminal."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeps.messages.redaction import RedactingFormatter
from sweeps.store.sweep_store import SweepStore

_NOISY = ("ray", "mlflow", "alembic", "optuna")


class _Handler(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Ignore errors, which would fill the terminal if the log cannot be written."""


def log_path(store: SweepStore) -> Path:
    """Where the log of a sweep is on this machine."""
    if store.folder.is_local:
        return Path(store.folder.path) / "driver.log"
    place = hashlib.blake2b(store.folder.uri.encode(), digest_size=4).hexdigest()
    return private_folder() / f"{store.name}-{place}-driver.log"


def private_folder() -> Path:
    """A folder for temporary files that other users of this machine cannot read or write."""
    folder = Path(tempfile.gettempdir()) / f"calsweep-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix="calsweep-"))  # another user owns this folder


@contextmanager
def driver_log(store: SweepStore) -> Iterator[Path]:
    """Write the logs of calsweep, Ray, MLflow and Optuna, and warnings, to ``driver.log``.

    Yields the log's path; with a remote storage it is in a private temporary folder.
    """
    path = log_path(store)
    handler = _Handler(path, encoding="utf-8")
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in (*_NOISY, "calsweep", "py.warnings")]
    before = [(log.handlers, log.propagate, log.level) for log in loggers]
    for log in loggers:
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.INFO if log.name == "calsweep" else logging.WARNING)
    logging.getLogger("ray.tune.analysis").setLevel(logging.ERROR)  # it misses disabled files
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    try:
        yield path
    finally:
        logging.captureWarnings(False)
        for log, (handlers, propagate, level) in zip(loggers, before, strict=True):
            log.handlers, log.propagate, log.level = handlers, propagate, level
        with suppress(OSError):  # unwritten lines cannot be written now either
            handler.close()
