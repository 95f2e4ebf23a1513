"""MLflow's own UI on the store of a storage folder."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from sweeps.errors import SweepFailedError, UserError
from sweeps.messages.redaction import redact, without_credentials
from sweeps.tracking.address import (
    artifact_location,
    check_answers,
    is_server,
    make_client,
    tracking_uri,
)
from sweeps.tracking.experiment import our_experiments
from sweeps.tracking.kept_address import follow_storage
from sweeps.tracking.run import SWEEP
from sweeps.tracking.sqlite import sqlite_path
from sweeps.tracking.view import Leaderboard

_PATIENCE_SECONDS = 8.0
_SWEEPS = 10  # of each experiment, whose links are printed


def serve(storage: str, host: str, port: int) -> None:
    """Serve the UI until interrupted; for a tracking server, print the links.

    Raises:
        UserError: There are no runs, the tracking server does not answer, or the port is in use.
        SweepFailedError: MLflow's server ended unexpectedly.
    """
    uri = tracking_uri(storage)
    if is_server(uri):
        check_answers(uri)
        print("The runs are on a tracking server:")
        _print_links(uri, without_credentials(uri).rstrip("/"))
        return
    if (path := sqlite_path(uri)) is not None and not path.exists():
        raise UserError(f"{uri} has no runs yet; `calsweep run quickstart` makes some")
    _check_free(host, port)
    if not follow_storage(uri, storage):
        print(
            "A sweep of this storage runs where the storage has another path: files of runs are "
            "shown here once it has ended"
        )
    print("Starting the MLflow UI ...", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also ends the server
    command = ["--host", host, "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", str(artifact_location(uri, storage))]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            # Not on the command line, which all users of this machine can read.
            env={**os.environ, "PYTHONWARNINGS": "ignore", "MLFLOW_BACKEND_STORE_URI": uri},
            start_new_session=True,  # Ctrl-C ends this process, which ends the server
        )
        try:
            if _is_up(server, f"http://{host}:{port}"):
                _print_links(uri, f"http://{host}:{port}")
                print(f"MLflow is up at http://{host}:{port}; Ctrl-C ends it", flush=True)
            code = server.wait()
        except KeyboardInterrupt:
            return
        finally:
            _end(server)
        log.seek(0)
        output = log.read().decode(errors="replace").strip()
        raise SweepFailedError(f"MLflow's server ended with code {code}:\n{redact(output)[-2000:]}")


def _check_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"cannot listen there on {host} ({error.strerror}); choose another port",
                "port",
                port,
            ) from None


def _is_up(server: subprocess.Popen[bytes], address: str) -> bool:
    while server.poll() is None:
        with contextlib.suppress(UserError):
            check_answers(address)
            return True
        time.sleep(0.2)
    return False


def _end(server: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if server.poll() is not None:
            return
        os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=_PATIENCE_SECONDS)


def _print_links(uri: str, address: str) -> None:
    client = make_client(uri)
    for experiment in our_experiments(client):
        latest = client.search_runs(
            [experiment.experiment_id],
            "tags.role = 'sweep'",
            max_results=_SWEEPS,
            order_by=["attributes.start_time DESC"],
        )
        for run in latest:
            name, sweep_id = run.data.tags[SWEEP], run.data.tags["calsweep.sweep_id"]
            link = Leaderboard(experiment.experiment_id, name, sweep_id).link(address)
            print(f"  {experiment.name}  {name}  {link}")
