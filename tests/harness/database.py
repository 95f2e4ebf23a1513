"""MLflow's empty database: creating its tables takes seconds, so they are created once."""

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sweeps.tracking import sqlite

_make_tables = sqlite.make_tables


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """As long as this process; not made on import, as processes that are killed leave it behind."""
    return tempfile.TemporaryDirectory(prefix="calsweep-database-")


@cache
def empty_database() -> Path:
    """A file with the tables of MLflow."""
    from tests.harness.forks import FORKS  # one of its processes has imported MLflow

    path = Path(_folder().name) / "mlflow.db"
    process = FORKS.Process(target=_make, args=(path,))
    process.start()
    process.join()
    return path


def _make(path: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MLflow says what it does
    _make_tables(path)


def copy_instead(database: Callable[[], Path]) -> None:
    """From now on, this process copies that file where it would create tables."""

    def copy(path: Path) -> None:
        shutil.copyfile(database(), path)

    sqlite.make_tables = copy
