"""The SQLite file that MLflow keeps its runs in, unless there is a server."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote, unquote

from filelock import FileLock


def sqlite_uri(path: Path) -> str:
    """The address of a SQLite file, for any path.

    SQLAlchemy reads what follows a ``?`` as options and decodes percent signs. With a driver in the
    address, MLflow makes no folder of the encoded name.
    """
    encoded = quote(str(path), safe=" +/")
    driver = "" if encoded == str(path) else "+pysqlite"
    return f"sqlite{driver}:///{encoded}"


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite address; None for others."""
    scheme, mark, place = uri.partition(":///")
    if not mark or scheme.partition("+")[0] != "sqlite":
        return None
    return Path(unquote(place.partition("?")[0]))


def with_absolute_path(uri: str) -> str:
    """The address from any working folder, if it is that of a SQLite file; others unchanged."""
    if (path := sqlite_path(uri)) is None or path.is_absolute():
        return uri
    scheme, mark, place = uri.partition(":///")
    return f"{scheme}{mark}{quote(os.getcwd(), safe=' +/')}/{place}"


def make_database(uri: str) -> None:
    """Make the SQLite file of MLflow's store if it does not exist, whole or not at all.

    MLflow's migrations take seconds on a disk, a fifth of that in memory, and MLflow refuses the
    file of a process that died in them.
    """
    path = sqlite_path(uri)
    if path is None or path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with (
        FileLock(lock),
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".mlflow-") as folder,
        tempfile.TemporaryDirectory(dir=_memory() or path.parent, prefix=".mlflow-") as fast,
    ):
        if not path.exists():  # else another sweep was faster
            made = Path(fast) / "made.db"
            make_tables(made)
            copy = shutil.copyfile(made, Path(folder) / "copy.db")  # to which nothing is connected
            os.replace(copy, path)
        lock.unlink(missing_ok=True)  # anyone who waits for it finds the file


def _memory() -> Path | None:
    """The system's folder in memory, if it has room; containers often have 64 MiB."""
    memory = Path("/dev/shm")
    usable = os.access(memory, os.W_OK | os.X_OK) and shutil.disk_usage(memory).free > 2**24
    return memory if usable else None


def make_tables(path: Path) -> None:
    from mlflow import MlflowClient

    MlflowClient(sqlite_uri(path)).search_experiments(max_results=1)
