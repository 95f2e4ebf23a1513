"""Checks that the names in a sweep mean the same on another machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweeps.errors import UserError
from sweeps.messages.redaction import redact
from sweeps.planning.paths import PATH_OPTIONS
from sweeps.sweep_file.schema import SweepFile

_SQLITE = "sqlite:///"
_SECRET = re.compile(
    r"(.*_)?(password|passwd|pwd|secret|credentials?|(access|account|api|secret)_?key"
    r"|(access|api|auth|hf)_token)|token",
    re.IGNORECASE,
)
_INSTEAD = {
    "tracking.uri": "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD on the cluster's "
    "nodes"
}


def check_reachable(storage: str, sweep: SweepFile | None = None) -> None:
    """Check that a cluster can find the data of a sweep, and that the sweep contains no password.

    The whole sweep file is sent with a job, so all of its values are checked. A shared folder
    cannot be distinguished from a folder of this machine, so absolute paths are accepted.

    Raises:
        UserError: The storage, the data or MLflow's database are given by a relative path, or an
            address contains a password, which other users of the cluster could read.
    """
    _refuse_password("storage", storage)
    if _is_relative(storage):
        raise UserError(
            f"storage = {storage!r} is a folder of this machine; allowed for a cluster: a URI such "
            "as s3://bucket/calsweep, or the absolute path of a folder that all nodes share "
            "(the variable CALSWEEP_STORAGE sets it, too)"
        )
    if sweep is None:
        return
    for key, value in _values(sweep.model_dump(mode="json")):
        _refuse_password(key, value)
    places = (
        place
        for part, options in sweep.parts.items()
        for name in PATH_OPTIONS
        for place in _values(options.get(name), f"{part}.{name}")
    )
    for key, path in places:
        if isinstance(path, str) and _is_relative(path):
            raise UserError(
                f"{key} = {path!r} is relative to this folder, and data are not sent; "
                "allowed for a cluster: a URI, or an absolute path that all nodes know"
            )
    _check_tracking(sweep.tracking.uri)


def _values(tree: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from _values(value, f"{key}.{name}" if key else str(name))
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _values(value, key)
    elif tree is not None:
        yield key, tree


def _check_tracking(uri: str | None) -> None:
    if uri is not None and uri.startswith(_SQLITE) and _is_relative(uri.removeprefix(_SQLITE)):
        raise UserError(
            f"tracking.uri = {uri!r} is a file of this machine; allowed for a cluster: the address "
            "of an MLflow server, or sqlite://// and the absolute path of a file on a folder that "
            "all nodes share (the variable MLFLOW_TRACKING_URI sets it, too)"
        )


def _is_relative(place: str) -> bool:
    return "://" not in place and not Path(place).is_absolute()


def _refuse_password(key: str, value: Any) -> None:
    secret = _SECRET.fullmatch(key.rpartition(".")[2])
    if isinstance(value, str) and (secret or redact(value) != value):
        instead = _INSTEAD.get(key, "give the cluster's nodes a role, or credentials of their own")
        raise UserError(
            f"{key} holds a password, which the job would store for other users to read; {instead}"
        )
