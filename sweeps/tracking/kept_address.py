"""MLflow's address that is kept with a sweep, so that all its runs are in one place.

A command in another shell may have another ``MLFLOW_TRACKING_URI``, or none.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweeps.errors import UserError
from sweeps.messages.redaction import without_credentials
from sweeps.search.record import known_fields
from sweeps.store.state import is_held
from sweeps.store.storage import read_json, sweep_names
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking.address import is_server, tracking_uri
from sweeps.tracking.mlflow_internals import follow_move
from sweeps.tracking.sqlite import sqlite_path, sqlite_uri, with_absolute_path
from trainables.files.storage import Folder

_FILE: Final = "mlflow.json"
_VARIABLE: Final = "MLFLOW_TRACKING_URI"


@dataclass(frozen=True)
class _Kept:
    """An address as it is stored.

    Attributes:
        in_storage: The path of a SQLite file in the storage, relative to it.
        tracking_uri: Any other address, without credentials.
        whole: Whether it had none.
    """

    in_storage: str | None = None
    tracking_uri: str | None = None
    whole: bool = True

    def at(self, storage: str) -> str | None:
        """The address, with the storage at this place; None if none is stored."""
        if self.in_storage is None:
            return self.tracking_uri
        return sqlite_uri(Path(Folder(storage).path) / self.in_storage)


def _read(kept: Any) -> _Kept:
    return _Kept(**known_fields(_Kept, kept))


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
    without = "MLflow's address is asked for anew"
    kept = read_json(store.folder, _FILE, _read, _Kept(), without)
    began = kept.at(store.storage)
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
    if not kept.whole and not is_server(began):  # servers have variables for it
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


def _is_kept(own: str, kept: _Kept) -> bool:
    """Whether the stored address is that of the sweep file, wherever its file is by now."""
    path = sqlite_path(own)
    return path is not None and (kept.in_storage is not None or not path.is_absolute())


def _inside(uri: str, storage: str) -> str | None:
    """The path of a SQLite file in the storage, relative to it."""
    path, folder = sqlite_path(uri), Folder(storage)
    if path is None or not folder.is_local or not path.is_relative_to(folder.path):
        return None
    return path.relative_to(folder.path).as_posix()
