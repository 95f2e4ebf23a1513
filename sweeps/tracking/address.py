"""The address of MLflow's store, a check that it answers, and a client for it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from sweeps.errors import UserError
from sweeps.messages.redaction import without_credentials
from sweeps.tracking.http import patiently
from sweeps.tracking.retrying import PatientClient
from sweeps.tracking.sqlite import sqlite_path, sqlite_uri, with_absolute_path
from trainables.files.storage import Folder, absolute
from trainables.plugins.arguments import first_line

_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
_TIMEOUT_SECONDS = 5.0, 30.0  # seconds to connect and to answer; the first call opens the database
_ANY_CALL = "/api/2.0/mlflow/experiments/search"
_ENVIRONMENT = {
    # The writer retries itself. MLflow would retry for minutes, and would create a run twice if the
    # reply to the first request was lost.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # Eight further server processes, which evaluate language models.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_CONFIGURE_LOGGING": "false",  # its messages are in the driver's log
    "GIT_PYTHON_REFRESH": "quiet",  # for GitPython, which MLflow imports
}

# MLflow reads some of these variables during its import.
for _name, _value in _ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)


def tracking_uri(storage: str, own: str | None = None) -> str:
    """A sweep's own address, else ``MLFLOW_TRACKING_URI``, else SQLite in the storage folder.

    Raises:
        UserError: The address has an unknown scheme; or there is no address, and the storage is
            remote or unusable.
    """
    given = own or os.environ.get("MLFLOW_TRACKING_URI")
    if given:
        scheme = given.partition(":")[0].partition("+")[0]
        if scheme not in _SCHEMES:
            raise UserError(
                f"tracking.uri = {given!r} is not allowed; allowed: an address that begins with "
                f"{', '.join(f'{s}:' for s in _SCHEMES)}"
            )
        return with_absolute_path(given)
    folder = Folder(storage)
    if not folder.is_local:
        raise UserError(
            f"tracking.uri is missing: with a remote storage ({storage}) give the address of an "
            "MLflow server there, or in MLFLOW_TRACKING_URI"
        )
    return sqlite_uri(Path(folder.path) / "mlflow.db")


def is_server(uri: str) -> bool:
    return uri.startswith(("http:", "https:"))


def make_client(uri: str) -> Any:
    """MLflow's client for an address.

    User name and password in the address of a server are passed by MLflow's environment variables,
    because MLflow repeats addresses in its messages.
    """
    from mlflow import MlflowClient

    parts = urlsplit(uri)
    if not is_server(uri) or parts.username is None:
        return PatientClient(MlflowClient(tracking_uri=uri))
    os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(parts.username)
    os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(parts.password or "")
    return PatientClient(MlflowClient(tracking_uri=without_credentials(uri)))


def artifact_location(uri: str, storage: str) -> str | None:
    """The URI of artifacts; None with a server, which decides itself.

    It is next to the file for SQLite, in the sweep store for other databases.
    """
    if is_server(uri):
        return None
    path = sqlite_path(uri)
    # MLflow stores this URI for all users to read. It finds credentials elsewhere.
    place = without_credentials(absolute(storage))
    if path is not None:
        place = str(path.absolute().parent)
    # MLflow decodes percent signs in paths too, so a path has to be a URI.
    return join_uri(place if "://" in place else Path(place).as_uri(), "artifacts")


def join_uri(uri: str, name: str) -> str:
    parts = urlsplit(uri)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{quote(name)}").geturl()


def check_answers(uri: str) -> None:
    """Check quickly that a server answers and accepts the credentials; UserError if not.

    After a lost reply or an overload there are two more tries.
    """
    if not is_server(uri):
        return
    import requests

    shown = without_credentials(uri)
    try:
        ask = partial(
            requests.get,
            shown.rstrip("/") + _ANY_CALL,
            params={"max_results": "1"},
            auth=_credentials(urlsplit(uri)),
            verify=_verify(),
            timeout=_TIMEOUT_SECONDS,
        )
        reply = patiently(ask)
    except (requests.RequestException, ValueError) as error:  # or it is no address at all
        remedy = (
            "name the file with its certificate, or with that of who signed it, in "
            "MLFLOW_TRACKING_SERVER_CERT_PATH"
            if isinstance(error, requests.exceptions.SSLError)
            else "start the server, or leave tracking.uri out to use SQLite in the sweep store"
        )
        raise UserError(
            f"tracking.uri = {shown!r} does not answer ({_cause(error)}); {remedy}"
        ) from None
    if reply.status_code in (401, 403):
        _ask_with_mlflows_own_credentials(uri)
    elif reply.status_code >= 400:
        status = f"HTTP status {reply.status_code} {reply.reason}"
        raise UserError(f"tracking.uri = {shown!r} answers with an error: {status}")


def _credentials(parts: SplitResult) -> tuple[str, str] | None:
    if parts.username is not None:
        return unquote(parts.username), unquote(parts.password or "")
    user = os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD")
    return (user, password) if user and password else None


def _verify() -> bool | str:
    """What MLflow verifies a server's certificate by; UserError if it is missing."""
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        return False
    path = os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH")
    if path and not Path(path).is_file():
        raise UserError(f"MLFLOW_TRACKING_SERVER_CERT_PATH = {path!r}: there is no such file")
    return path or True


def _ask_with_mlflows_own_credentials(uri: str) -> None:
    """MLflow knows further ways to authenticate: a token, a file in the home folder, plugins."""
    from mlflow.exceptions import MlflowException

    try:
        make_client(uri).search_experiments(max_results=1)
    except MlflowException:
        raise UserError(
            f"tracking.uri = {without_credentials(uri)!r} refuses the credentials, or none were "
            "given; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or "
            "MLFLOW_TRACKING_TOKEN)"
        ) from None


def _cause(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    reason = getattr(reason, "reason", reason)  # urllib3's, wrapped by requests
    return first_line(str(reason).rpartition(": ")[2]) or type(error).__name__
