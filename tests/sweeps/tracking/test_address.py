"""The address of MLflow."""

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException
from sqlalchemy import make_url

from sweeps.errors import UserError
from sweeps.tracking.address import (
    artifact_location,
    make_client,
    tracking_uri,
)
from sweeps.tracking.reader import tracked_sweeps
from sweeps.tracking.sqlite import make_database, sqlite_path, sqlite_uri


@pytest.mark.parametrize(
    ("storage", "own", "environment", "expected"),
    [
        ("/a/b", None, None, "sqlite:////a/b/mlflow.db"),
        ("file:///a/b", None, None, "sqlite:////a/b/mlflow.db"),
        ("/a/b", None, "http://host:5000", "http://host:5000"),
        ("/a/b", "https://own", "http://host:5000", "https://own"),
        ("s3://bucket/x", "postgresql+psycopg://host/x", None, "postgresql+psycopg://host/x"),
    ],
)
def test_where_mlflow_is(
    monkeypatch: pytest.MonkeyPatch,
    storage: str,
    own: str | None,
    environment: str | None,
    expected: str,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if environment is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", environment)
    assert tracking_uri(storage, own) == expected


@pytest.mark.parametrize(
    ("storage", "own", "message"),
    [
        ("/a/b", "ftp://x", r"tracking.uri = 'ftp://x' is not allowed; allowed: .*http:"),
        ("/a/b", "mlruns", r"tracking.uri = 'mlruns' is not allowed"),
        ("nope://x", None, r"tracking.uri is missing: with a remote storage \(nope://x\)"),
    ],
)
def test_where_mlflow_cannot_be(
    monkeypatch: pytest.MonkeyPatch, storage: str, own: str | None, message: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match=message):
        tracking_uri(storage, own)


def no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_mlflows_database_is_made_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "mlflow.db"
    uri = f"sqlite:///{path}"
    monkeypatch.setattr(os, "link", no_links)  # like file systems without hard links
    make_database(uri)
    before = path.read_bytes()
    make_database(uri)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["mlflow.db"]
    assert tracked_sweeps(uri) == []


def test_two_sweeps_make_one_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(path: Path) -> None:
        made.append(path)
        time.sleep(0.1)  # so that the others arrive
        path.write_bytes(b"tables")

    monkeypatch.setattr("sweeps.tracking.sqlite.make_tables", make)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make_database, [f"sqlite:///{tmp_path}/mlflow.db"] * 4))
    assert len(made) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        ("s3://bucket/x", "s3://bucket/x/artifacts"),
        ("s3://bucket/x/?region=eu", "s3://bucket/x/artifacts"),
    ],
)
def test_where_artifacts_are(storage: str, expected: str) -> None:
    assert artifact_location("postgresql://host/x", storage) == expected


def test_a_request_without_an_answer_is_not_sent_again() -> None:
    """Repeating a request could create two runs, so the writer first checks for the run."""
    asked = []

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            self.connection.close()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            with pytest.raises(MlflowException):
                make_client(f"http://127.0.0.1:{server.server_port}").create_run("0")
        finally:
            server.shutdown()
            thread.join()
    assert asked == ["/api/2.0/mlflow/runs/create"]


@pytest.mark.parametrize("path", ["/a/mlflow.db", "/a b/c%20d/e?f=g/#h/ü.db"])
def test_sqlalchemy_reads_the_path_that_was_meant(path: str) -> None:
    uri = sqlite_uri(Path(path))
    assert make_url(uri).database == path
    assert sqlite_path(uri) == Path(path)
