"""A proxy before an HTTP server that may lose replies and refuse requests."""

from __future__ import annotations

import http.client
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

_NOT_PASSED_ON: Final = {"connection", "transfer-encoding", "content-length", "date", "server"}


class LossyProxy:
    """A proxy on a port of this machine.

    Args:
        uri: Of the server.

    Attributes:
        uri: Of the proxy.
        share: Of the replies that are lost from now on.
        refused: Share of the requests that it answers with 503 instead, from now on.
        lost: Number of replies lost so far.
    """

    def __init__(self, uri: str) -> None:
        self.share, self.refused, self.lost = 0.0, 0.0, 0
        self._rng = random.Random(0)
        self._target = urlsplit(uri).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy._answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        if self._rng.random() < self.refused:
            handler.send_response(503)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        connection = http.client.HTTPConnection(self._target, timeout=60)
        connection.request(handler.command, handler.path, body, dict(handler.headers))
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        if self._rng.random() < self.share:
            self.lost += 1
            handler.close_connection = True  # without a word
            return
        handler.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in _NOT_PASSED_ON:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
