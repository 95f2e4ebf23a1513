"""A head that no longer answers."""

import socket
import threading

from sweeps.cluster.ray_tune import head_watched


def test_a_head_that_never_answered_is_not_watched() -> None:
    reported: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = f"127.0.0.1:{server.getsockname()[1]}"
    with head_watched([silent], reported.append, seconds=0.01):
        assert not threading.Event().wait(0.2)
    assert reported == []


def test_a_head_that_goes_is_reported_once_and_again_after_it_has_answered() -> None:
    reported = threading.Semaphore(0)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    addresses = ("auto", f"127.0.0.1:{port}")
    with head_watched(addresses, lambda _: reported.release(), seconds=0.02):
        assert not reported.acquire(timeout=0.3)
        server.close()
        assert reported.acquire(timeout=60)
        assert not reported.acquire(timeout=0.3)
        with socket.create_server(("127.0.0.1", port)) as back:
            back.accept()  # it has answered
        assert reported.acquire(timeout=60)
