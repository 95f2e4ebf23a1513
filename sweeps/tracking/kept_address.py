"""MLflow's address that is kept with a sweep, so that all its runs are in one place.

A command in another shell may have another ``MLFLOW_TRACKING_URI``, or none.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from sweeps.errors import UserError
from sweeps.messages.redaction import without_credentials
from sweeps.store.state import is_held
from sweeps.store.storage import read_json, sweep_names
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.address import is_server, tracking_uri
from sweeps.tracking.mlflow_internals import follow_move
from sweeps.tracking.sqlite import sqlite_path, sqlite_uri, with_absolute_path
from trainables.files.storage import Folder

_FILE: Final = "mlflow.json"
_VARIABLE: Final = "MLFLOW_TRACKING_URI"


def address_files(uri: str, storage: str) -> dict[str, bytes]:
    """The file that stores the address of a new sweep, without credentials: name and content.

    A database in the storage is stored relative to it, because a storage can be moved.
    """
    inside, shown = _inside(uri, storage), without_credentials(uri)
    kept = {"in_storage": inside} if inside else {"tracking_uri": shown, "whole": shown == uri}
    return {_FILE: json.dumps(kept).encode()}


def tracking_uri_of(store: SweepStore, own: str | None) -> str:
    """The address of an existing sweep's runs; `own` is ``tracking.uri`` of its sweep file.

    Raises:
        UserError: ``MLFLOW_TRACKING_URI`` names another one, or its credentials are missing; or as
            for :func:`~sweeps.tracking.address.tracking_uri`.
    """
    kept: dict[str, object] = read_json(
        store.folder, _FILE, dict, {}, "MLflow's address is asked for anew"
    )
    began = _began(kept, store.storage)
    if began is None or (own and not _is_kept(own, kept)):
        return tracking_uri(store.storage, own)  # it is damaged; or the sweep file decides
    given = None if own else with_absolute_path(os.environ.get(_VARIABLE, ""))
    if given and without_credentials(given).rstrip("/") == began.rstrip("/"):
        return given
    if given:
        raise UserError(
            f"{_VARIABLE} = {without_credentials(given)!r}: the runs of sweep {store.name!r} are "
            f"at {began!r}; unset the variable or set it to that address, or, if the runs are "
            f"now at the other one, delete {store.folder.uri}/{_FILE}"
        )
    if not kept.get("whole", True) and not is_server(began):  # servers have variables for it
        raise UserError(
            f"{_VARIABLE} is missing: the runs of sweep {store.name!r} are at {began!r}, and "
            "credentials and options are not stored; set it to that address with them"
        )
    return began


def follow_storage(uri: str, storage: str, own: str | None = None) -> bool:
    """Let the SQLite file in `uri` follow a storage that was moved.

    It does not while a sweep of the storage runs, except the sweep `own`. Returns whether MLflow's
    own UI and client find the files of runs on this machine.
    """

    def is_in_use() -> bool:
        others = (SweepStore(storage, name) for name in sweep_names(storage) if name != own)
        return any(map(is_held, others))

    path = sqlite_path(uri)
    return path is None or not path.exists() or follow_move(path, is_in_use)


def _is_kept(own: str, kept: dict[str, object]) -> bool:
    """Whether the stored address is that of the sweep file, wherever its file is by now."""
    path = sqlite_path(own)
    return path is not None and ("in_storage" in kept or not path.is_absolute())


def _inside(uri: str, storage: str) -> str | None:
    """The path of a SQLite file in the storage, relative to it."""
    path, folder = sqlite_path(uri), Folder(storage)
    if path is None or not folder.is_local or not path.is_relative_to(folder.path):
        return None
    return path.relative_to(folder.path).as_posix()


def _began(kept: dict[str, object], storage: str) -> str | None:
    if "in_storage" in kept:
        return sqlite_uri(Path(Folder(storage).path) / str(kept["in_storage"]))
    uri = kept.get("tracking_uri")
    return None if uri is None else str(uri)
