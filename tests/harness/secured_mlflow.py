"""An MLflow server with HTTPS and passwords, which grants no permission by default."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import requests
from mlflow import MlflowClient

from tests.harness.scene import MlflowServer

PASSWORD = "a-long-password"
_ADMIN = "admin"
# Checking a password takes 0.1 s of CPU, several times per call.
_CONFIG = """
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///{folder}/users.db
admin_username = {admin}
auth_cache_ttl_seconds = 600
"""


class SecuredMlflow:
    """``mlflow server --app-name basic-auth`` with a self-signed certificate.

    This process trusts the certificate while the server runs.

    Args:
        folder: An empty one.
        patch: Sets the environment of this process.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.certificate = _make_certificate(folder)
        config = folder / "basic_auth.ini"
        config.write_text(_CONFIG.format(folder=folder, admin=_ADMIN))
        patch.setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", str(self.certificate))
        self.act_as(_ADMIN)
        self._server = MlflowServer(
            f"sqlite:///{folder}/mlflow.db",
            str(folder / "artifacts"),
            options=(
                *("--app-name", "basic-auth"),
                "--uvicorn-opts",
                f"--ssl-keyfile {folder}/key.pem --ssl-certfile {self.certificate}",
            ),
            environment={
                "MLFLOW_AUTH_CONFIG_PATH": str(config),
                "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
                "MLFLOW_FLASK_SERVER_SECRET_KEY": "of this server",
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            },
            scheme="https",
        )
        self.uri = self._server.uri

    def kill(self) -> None:
        """Stop the server."""
        self._server.kill()

    def act_as(self, user: str) -> None:
        """Use the name and password of a user in this process from now on."""
        self._patch.setenv("MLFLOW_TRACKING_USERNAME", user)
        self._patch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)

    def make_user(self, name: str, **rights: str) -> None:
        """Create a user and act as this user from now on.

        Args:
            name: Name of the user.
            rights: Kind of thing → ``<id or *>: <right>``, as of :meth:`grant`.
        """
        self.act_as(_ADMIN)
        self._post("2.0/mlflow/users/create", username=name, password=PASSWORD)
        for kind, right in rights.items():
            thing, _, level = right.partition(": ")
            self.grant(name, kind, thing, level)
        self.act_as(name)

    def make_experiment(self, name: str) -> str:
        """Create an experiment of the administrator; returns its id."""
        self.act_as(_ADMIN)
        return str(MlflowClient(self.uri).create_experiment(name))

    def grant(self, user: str, kind: str, thing: str, level: str) -> None:
        """Grant a permission to a user, and act as this user from now on.

        Args:
            user: Who gets it.
            kind: ``experiment`` or ``registered_model``.
            thing: The id of an experiment, the name of a model, or ``*`` for all.
            level: ``READ``, ``EDIT``, ``MANAGE``, or ``DENY``.
        """
        self.act_as(_ADMIN)
        self._post(
            "3.0/mlflow/users/permissions/grant",
            username=user,
            resource_type=kind,
            resource_id=thing,
            permission=level,
        )
        self.act_as(user)

    def _post(self, call: str, **values: str) -> None:
        """Call the server directly: MLflow's client is in server modules that warn on import."""
        reply = requests.post(
            f"{self.uri}/api/{call}",
            json=values,
            auth=(_ADMIN, PASSWORD),
            verify=str(self.certificate),
            timeout=60,
        )
        reply.raise_for_status()


def _make_certificate(folder: Path) -> Path:
    """Write a key and a self-signed certificate to one file."""
    path = folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(path)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return path
