"""The driver's log: a file in the sweep's folder, so that the terminal stays readable."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeps.redaction import redact
from sweeps.store.sweep_store import SweepStore

_NOISY = ("ray", "mlflow", "alembic", "optuna")


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The line, tracebacks included, without the credentials of addresses."""
        return redact(super().format(record))


@contextmanager
def driver_log(store: SweepStore) -> Iterator[Path]:
    """Send calsweep's log, warnings, and what Ray, MLflow and Optuna say, into ``driver.log``.

    Args:
        store: The sweep's store; with remote storage the log lies in the temporary folder.

    Yields:
        The log's path.
    """
    folder = store.folder.path if store.folder.is_local else tempfile.gettempdir()
    path = Path(folder) / ("driver.log" if store.folder.is_local else f"{store.name}-driver.log")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in (*_NOISY, "calsweep", "py.warnings")]
    before = [(log.handlers, log.propagate, log.level) for log in loggers]
    for log in loggers:
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.INFO if log.name == "calsweep" else logging.WARNING)
    logging.getLogger("ray.tune.analysis").setLevel(logging.ERROR)  # it misses its own files
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    try:
        yield path
    finally:
        logging.captureWarnings(False)
        for log, (handlers, propagate, level) in zip(loggers, before, strict=True):
            log.handlers, log.propagate, log.level = handlers, propagate, level
        handler.close()
