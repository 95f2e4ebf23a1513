"""Does what a sweep names mean the same on another machine?"""

from __future__ import annotations

from pathlib import Path

from sweeps.errors import UserError
from sweeps.redaction import redact
from sweeps.sweep_file.schema import SweepFile

_PATH_OPTIONS = ("train", "test", "root", "train_labels", "test_labels", "cache", "vectors")
_SQLITE = "sqlite:///"


def check_reachable(storage: str, sweep: SweepFile | None = None) -> None:
    """Make sure that a cluster can find what a sweep names, and that no password is in it.

    A folder that all nodes share cannot be told from one of this machine, so absolute paths pass.

    Raises:
        UserError: The storage, the data or MLflow's database are given by a relative path, or an
            address holds a password, which would be kept with the job for all to read.
    """
    _refuse_password(
        "storage", storage, "give the cluster's nodes a role, or credentials of their own"
    )
    if _is_relative(storage):
        raise UserError(
            f"storage = {storage!r} is a folder of this machine; allowed for a cluster: a URI such "
            "as s3://bucket/calsweep, or the absolute path of a folder that all nodes share "
            "(set by --storage or CALSWEEP_STORAGE)"
        )
    if sweep is None:
        return
    places = {
        f"{part}.{name}": options[name]
        for part, options in sweep.parts.items()
        for name in _PATH_OPTIONS
        if isinstance(options.get(name), str)
    }
    for key, path in places.items():
        _refuse_password(key, path, "give the cluster's nodes a role, or credentials of their own")
        if _is_relative(path):
            raise UserError(
                f"{key} = {path!r} is relative to this folder, and data are not sent; "
                "allowed for a cluster: a URI, or an absolute path that all nodes know"
            )
    _check_tracking(sweep.tracking.uri)


def _check_tracking(uri: str | None) -> None:
    if uri is None:
        return
    _refuse_password(
        "tracking.uri",
        uri,
        "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD on the cluster's nodes",
    )
    if uri.startswith(_SQLITE) and _is_relative(uri.removeprefix(_SQLITE)):
        raise UserError(
            f"tracking.uri = {uri!r} is a file of this machine; allowed for a cluster: the address "
            "of an MLflow server, or sqlite://// and the absolute path of a file on a folder that "
            "all nodes share (set in the sweep file, by --set or MLFLOW_TRACKING_URI)"
        )


def _is_relative(place: str) -> bool:
    return "://" not in place and not Path(place).is_absolute()


def _refuse_password(key: str, uri: str, instead: str) -> None:
    if redact(uri) != uri:
        raise UserError(
            f"{key} holds a password, which would be kept with the job for all to read; {instead}"
        )
