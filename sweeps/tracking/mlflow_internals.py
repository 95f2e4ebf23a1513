"""MLflow's SQLite tables, for a database that was moved together with its artifacts.

MLflow stores absolute places and has no call that changes them. Otherwise a sweep in a moved
storage would write its files to the old place, and MLflow would show none.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from sweeps.messages.reporter import logger

_PLACES: Final = {
    "experiments": ("artifact_location",),
    "runs": ("artifact_uri",),
    "model_versions": ("source", "storage_location"),
    "logged_models": ("artifact_location",),
}
_PLACE: Final = re.compile(
    r"file://(?P<root>/.*)/artifacts/(?P<name>[^/]+)(?:/[^/]+/artifacts)?"  # experiment, or run
)
_SECONDS: Final = 30.0  # to wait for another process that writes


def place_here(stored: str, database: Path) -> str:
    """Where files are whose place a SQLite file has stored: next to it, if it was moved.

    The same storage may have other paths on other machines, so the stored path may be another
    machine's.
    """
    here = database.absolute().parent
    former = _former_root(stored, here)
    return stored if former is None else here.as_uri() + stored.removeprefix(former)


def follow_move(database: Path, is_in_use: Callable[[], bool]) -> bool:
    """Replace the former folder of a database in the places that it stores, if it was moved.

    MLflow's own UI and client need it. Only experiments whose artifacts are next to the database
    are affected, see :func:`~sweeps.tracking.address.artifact_location`. Without the expected
    tables or permission to write, nothing is changed; neither while another sweep `is_in_use`,
    because the former folder may be the same one on that sweep's machine.

    Returns:
        Whether the stored places are those of this machine.
    """
    here = database.absolute().parent
    try:
        with closing(sqlite3.connect(database, timeout=_SECONDS)) as connection:
            known = connection.execute("SELECT artifact_location FROM experiments").fetchall()
            roots = {root for (place,) in known if (root := _former_root(place, here))}
            if roots and is_in_use():
                return False
            for former in roots:
                with connection:
                    _replace(connection, former, here.as_uri())
                logger.warning("the files of MLflow's runs are now below %s", here)
    except sqlite3.Error as error:
        logger.warning("%s keeps the places of its files: %s", database, error)
    return True


def _former_root(place: str | None, here: Path) -> str | None:
    """The URI of the folder that artifacts were moved from; None if they stay."""
    if (found := _PLACE.fullmatch(place or "")) is None:
        return None
    name = unquote(found["name"])
    there, now = Path(unquote(found["root"]), "artifacts", name), here / "artifacts" / name
    if there == now or (there.exists() and now.exists() and there.samefile(now)):
        return None
    was_moved = now.is_dir() or not there.exists()
    return f"file://{found['root']}" if was_moved else None


def _replace(connection: sqlite3.Connection, former: str, now: str) -> None:
    """Replace the beginning of all places in one transaction."""
    for table, columns in _PLACES.items():
        there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for column in there.intersection(columns):
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE substr({column}, 1, ?) = ?",
                (now, len(former) + 1, len(former) + 1, f"{former}/"),
            )
