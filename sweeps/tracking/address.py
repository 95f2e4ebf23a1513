"""Where MLflow's store is, and a client for it."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweeps.errors import UserError
from sweeps.redaction import without_credentials
from sweeps.sweep_file.schema import SweepFile
from trainables.storage import Folder, absolute

_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
_TIMEOUT_SECONDS = 5.0
VIEW_KEY = "calsweep"  # of the view of an experiment that `calsweep ui` links to

# MLflow's own retries would hold a sweep up for minutes; the writer retries by itself.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
# Eight further processes of a server, which judge the texts of language models.
os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
os.environ.setdefault("MLFLOW_CONFIGURE_LOGGING", "false")  # its messages go into our log
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")


def tracking_uri(storage: str, sweep: SweepFile | None = None) -> str:
    """The sweep's own address, else ``MLFLOW_TRACKING_URI``, else SQLite in the storage folder.

    Raises:
        UserError: The address has no known scheme, or there is none and the storage is remote or
            no storage at all.
    """
    given = (sweep.tracking.uri if sweep else None) or os.environ.get("MLFLOW_TRACKING_URI")
    if given:
        scheme = given.partition(":")[0].partition("+")[0]
        if scheme not in _SCHEMES:
            raise UserError(
                f"tracking.uri = {given!r} is not allowed; allowed: an address that begins with "
                f"{', '.join(f'{s}:' for s in _SCHEMES)}"
            )
        return given
    folder = Folder(storage)
    if not folder.is_local:
        raise UserError(
            f"tracking.uri is missing: with a remote storage ({storage}) give the address of an "
            "MLflow server there, or in MLFLOW_TRACKING_URI"
        )
    return f"sqlite:///{Path(folder.path) / 'mlflow.db'}"


def make_database(uri: str) -> None:
    """Make the SQLite file of MLflow's store if it is not there, whole or not at all.

    MLflow's migrations take seconds, and a process that dies in them leaves a file that MLflow
    refuses ever after.
    """
    path = Path(uri.removeprefix("sqlite:///"))
    if not uri.startswith("sqlite:///") or path.exists():
        return
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".mlflow-") as folder:
        made = Path(folder) / "made.db"
        MlflowClient(f"sqlite:///{made}").search_experiments(max_results=1)
        copy = shutil.copyfile(made, Path(folder) / "copy.db")  # to which nothing is connected
        with suppress(FileExistsError):  # another sweep was faster
            os.link(copy, path)


def artifact_location(uri: str, storage: str) -> str | None:
    """Where artifacts lie if no server sees to them.

    Args:
        uri: Of MLflow's store.
        storage: Of the sweeps.

    Returns:
        Beside the file for SQLite, in the storage for other databases; None for a server.
    """
    if uri.startswith("sqlite:///"):
        return str(Path(uri.removeprefix("sqlite:///")).absolute().parent / "artifacts")
    if uri.startswith("http"):
        return None
    # Kept by MLflow for all to read, and of no use to it: it finds credentials by itself.
    return f"{without_credentials(absolute(storage)).rstrip('/')}/artifacts"


def check_answers(uri: str) -> None:
    """Make sure at once that a tracking server answers.

    Raises:
        UserError: It does not.
    """
    if not uri.startswith(("http:", "https:")):
        return
    try:
        with urllib.request.urlopen(_health(uri), timeout=_TIMEOUT_SECONDS) as reply:
            reply.read()
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise UserError(f"tracking.uri = {uri!r} answers with an error: {error}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"tracking.uri = {uri!r} does not answer ({reason}); start the server, or leave "
            "tracking.uri out to use SQLite in the sweep store"
        ) from None


def _health(uri: str) -> urllib.request.Request:
    """The request whether a server is up, with the credentials that MLflow's client would send."""
    parts = urlsplit(uri)
    user = unquote(parts.username or "") or os.environ.get("MLFLOW_TRACKING_USERNAME")
    password = unquote(parts.password or "") or os.environ.get("MLFLOW_TRACKING_PASSWORD")
    request = urllib.request.Request(f"{without_credentials(uri).rstrip('/')}/health")
    if user and password:
        words = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {words}")
    elif token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    return request
