"""MLflow's own UI on the store of a storage folder."""

from __future__ import annotations

import socket
import subprocess
import sys

from sweeps.errors import SweepFailedError, UserError
from sweeps.tracking.client import artifact_location, tracking_uri
from trainables.storage import Folder


def serve(storage: str, host: str, port: int) -> None:
    """Serve the UI until interrupted.

    Args:
        storage: The storage folder.
        host: Address to listen on.
        port: Port to listen on.

    Raises:
        UserError: There is nothing to show, another server does the serving, or the port is taken.
        SweepFailedError: MLflow's server ended by itself.
    """
    uri = tracking_uri(storage)
    if uri.startswith(("http:", "https:")):
        raise UserError(f"the runs are on a tracking server; open {uri} in a browser")
    if uri.startswith("sqlite:") and not Folder(storage).exists("mlflow.db"):
        raise UserError(
            f"storage = {storage!r} has no runs yet; `calsweep run quickstart` makes some"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"--host {host} --port {port}: cannot listen there ({error.strerror}); "
                "choose another port by --port"
            ) from None
    print(f"MLflow UI on http://{host}:{port} (Ctrl-C ends it)", flush=True)
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port)]
    command += ["--backend-store-uri", uri, "--artifacts-destination", artifact_location(storage)]
    code = subprocess.call([*command, "--workers", "1"])
    if code not in (0, 130, -2, -15):
        raise SweepFailedError(f"MLflow's server ended with code {code}; its output is above")
