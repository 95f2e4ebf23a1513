"""An S3-compatible server in this process, which can refuse to answer."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.harness.ray_cluster import free_port

BUCKET = "sweeps"
READS = ("GET", "HEAD")
WRITES = ("PUT", "POST", "DELETE")


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Logs nothing."""


class ObjectStore:
    """A server with a bucket.

    Attributes:
        refused: The methods to which it answers 503.
        environment: Variables that lead pyarrow and boto3 to it.
        client: A boto3 client, which threads may share.
    """

    def __init__(self) -> None:
        self.refused: Collection[str] = ()
        self._app = DomainDispatcherApplication(create_backend_app)
        port = free_port()
        self._server = make_server(
            "127.0.0.1", port, self._answer, threaded=True, request_handler=_Quiet
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self.client = boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="anybody",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        self.client.create_bucket(Bucket=BUCKET)

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in self.refused:
            start_response("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        return self._app(environ, start_response)
