"""MLflow's empty database: creating its tables takes seconds, so they are created once."""

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sweeps.tracking import sqlite

_make_tables = sqlite.make_tables
_FOLDER = tempfile.TemporaryDirectory(prefix="calsweep-database-")  # as long as this process


@cache
def empty_database() -> Path:
    """A file with the tables of MLflow."""
    from tests.harness.forks import FORKS  # one of its processes has imported MLflow

    path = Path(_FOLDER.name) / "mlflow.db"
    process = FORKS.Process(target=_make, args=(path,))
    process.start()
    process.join()
    return path


def _make(path: Path) -> None:
    _make_tables(path)


def copy_instead(database: Callable[[], Path]) -> None:
    """From now on, this process copies that file where it would create tables."""

    def copy(path: Path) -> None:
        shutil.copyfile(database(), path)

    sqlite.make_tables = copy
