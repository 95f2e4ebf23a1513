"""A webhook that keeps its messages and answers with given statuses."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """A server on a port of this machine.

    Attributes:
        url: Its address, with a secret.
        received: Messages that it took, or refused with 403.
        authorizations: That header of all requests.
        statuses: Of the next replies, which lead to ``/elsewhere``; then 200.
    """

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.statuses: list[int] = []
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.authorizations.append(self.headers["Authorization"])
                status = webhook.statuses.pop(0) if webhook.statuses else 200
                if status in (200, 403):
                    webhook.received.append(json.loads(body))
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/T0/secret"

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
