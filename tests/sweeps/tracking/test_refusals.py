"""A lost reply is no refusal: nothing is dropped, and nothing is written twice."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos import databricks_pb2 as codes
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

from sweeps.errors import UserError
from sweeps.service.upkeep import sync_sweep
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking import address, http, retrying
from sweeps.tracking.retrying import is_refusal
from sweeps.tracking.writer import MlflowWriter
from tests.harness.tracked import (
    ending_of,
    keep_answer,
    make_mirror,
    make_records,
    make_store,
    make_sweep,
    runs_of,
    write_whole,
)

CALLS = [
    *("create_experiment", "create_run", "get_experiment", "get_run", "log_artifact", "log_batch"),
    *("log_inputs", "search_experiments", "search_runs", "set_tag"),
    *("set_experiment_tag", "set_terminated", "update_run", "get_metric_history"),
]
LOST = "API request failed with exception ('Connection aborted.', RemoteDisconnected())"


def failing(
    patch: pytest.MonkeyPatch, fails: Callable[[str], Exception | None], *names: str
) -> None:
    """Let calls of MLflow's client, or of its folder of files, fail after they were carried out."""
    for name in names or CALLS:
        place = LocalArtifactRepository if name == "log_artifact" else MlflowClient
        whole = getattr(place, name)

        def call(*arguments: Any, name: str = name, whole: Any = whole, **options: Any) -> Any:
            result = whole(*arguments, **options)
            if (error := fails(name)) is not None:
                raise error
            return result

        patch.setattr(place, name, call)


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.tracking.writer._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("sweeps.tracking.writer._LONGEST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(retrying, "_PAUSES", (0.0,) * 2)
    monkeypatch.setattr(http, "_PAUSES", (0.0, 0.0))


def test_lost_replies_drop_nothing(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, every = make_sweep("lossy"), make_records()
    records = [every[0], every[1], every[5]]  # the last one has failed
    rng = random.Random(0)
    with monkeypatch.context() as patch:
        failing(patch, lambda _: MlflowException(LOST) if rng.random() < 0.3 else None)
        writer = MlflowWriter(make_mirror(fresh, sweep, records))
        for record in records:
            writer.submit(record)
        ended = ending_of(records, sweep, SweepStore(str(fresh), "lossy"))
        assert writer.close(60, ended) == 0
    assert writer.fault is None
    runs = runs_of(fresh, "lossy")  # checks that no run exists twice
    assert sorted(runs) == sorted(["", *(str(record.number) for record in records)])
    assert {run.info.status for run in runs.values()} == {"FINISHED", "FAILED"}
    assert runs[""].info.status == "FINISHED"
    own = Path(runs[""].info.artifact_uri.removeprefix("file://"))
    assert (own / "report.html").exists()


def test_sync_retries_lost_replies(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, records = make_sweep("synced"), make_records()[:1]
    store = make_store(fresh, sweep, records)
    keep_answer(store, records, sweep)
    rng = random.Random(1)
    with monkeypatch.context() as patch:
        failing(patch, lambda _: MlflowException(LOST) if rng.random() < 0.3 else None)
        assert sync_sweep("synced", str(fresh)).trials == 1
    assert {run.info.status for run in runs_of(fresh, "synced").values()} == {"FINISHED"}


def test_each_call_is_retried_alone(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every second reply lost, a chain of calls would never end."""
    sweep, (record, *_) = make_sweep("alone"), make_records()
    mirror, count = make_mirror(fresh, sweep, [record]), itertools.count()

    def loses(name: str) -> Exception | None:
        lost = not name.startswith("create_") and next(count) % 2 == 0
        return MlflowException(LOST) if lost else None

    with monkeypatch.context() as patch:
        failing(patch, loses)
        mirror.connect()
        write_whole(mirror, record)
        mirror.answer(ending_of([record], sweep))
        mirror.end(ending_of([record], sweep))
    assert {run.info.status for run in runs_of(fresh, "alone").values()} == {"FINISHED"}


@pytest.mark.parametrize(("name", "refused"), [("log_artifact", False), ("set_terminated", True)])
def test_the_sweeps_own_run_gets_as_many_tries_as_a_trial(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, name: str, refused: bool
) -> None:
    sweep, records = make_sweep("own"), make_records()[:1]
    mirror = make_mirror(fresh, sweep, records)
    write_whole(mirror, records[0])
    code = codes.INVALID_PARAMETER_VALUE if refused else codes.INTERNAL_ERROR
    faults = [MlflowException(LOST, code) for _ in range(2)]
    with monkeypatch.context() as patch:
        failing(patch, lambda _: faults.pop() if faults else None, name)
        writer = MlflowWriter(mirror)
        ended = ending_of(records, sweep, SweepStore(str(fresh), "own"))
        assert writer.close(60, ended) == 0
    assert (writer.fault, faults) == (None, [])
    assert runs_of(fresh, "own")[""].info.status == "FINISHED"


def test_refusals_are_counted_from_the_last_success(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two refusals while a run is shown and two while its files are added are not four."""
    sweep, records = make_sweep("counted"), make_records()[:1]
    mirror = make_mirror(fresh, sweep, records)
    left = {"log_batch": 2, "log_artifact": 2}

    def refuses(name: str) -> Exception | None:
        left[name] -= 1
        return MlflowException("no", codes.INVALID_PARAMETER_VALUE) if left[name] >= 0 else None

    mirror.connect()
    with monkeypatch.context() as patch:
        failing(patch, refuses, *left)
        writer = MlflowWriter(mirror)
        writer.submit(records[0])
        assert writer.close(60, ending_of(records, sweep)) == 0
    assert runs_of(fresh, "counted")["0"].info.status == "FINISHED"


def http_error(status: int) -> Exception:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError("no", response=response)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MlflowException(LOST), False),
        (MlflowException("bad name", codes.INVALID_PARAMETER_VALUE), True),
        (MlflowException("locked", codes.TEMPORARILY_UNAVAILABLE), False),
        (MlflowException("too many", codes.RESOURCE_EXHAUSTED), False),
        (ConnectionError("reset"), False),
        (requests.ConnectionError("reset"), False),
        (OSError(28, "No space left on device"), False),
        (FileExistsError(17, "a file where a folder is to be"), True),
        *((http_error(status), status in (400, 404, 413)) for status in (400, 404, 413, 408, 429)),
        *((http_error(status), False) for status in (500, 502, 503)),
    ],
)
def test_what_a_refusal_is(error: Exception, expected: bool) -> None:
    assert is_refusal(error) == expected


@contextmanager
def server_that_answers(*statuses: int) -> Iterator[tuple[str, list[str]]]:
    """An HTTP server that answers requests so in turn, 0 for not at all; with what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status = statuses[len(asked) - 1]
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.connection.close()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("statuses", [(200,), (0, 200), (503, 0, 200), (429, 429, 200)])
def test_the_first_check_has_three_tries(statuses: tuple[int, ...]) -> None:
    with server_that_answers(*statuses) as (uri, asked):
        address.check_answers(uri)
    assert len(asked) == len(statuses)


@pytest.mark.parametrize("statuses", [(404,), (0, 0, 0), (503, 503, 503), (0, 400)])
def test_a_check_that_fails_is_reported(statuses: tuple[int, ...]) -> None:
    with (
        server_that_answers(*statuses) as (uri, asked),
        pytest.raises(UserError, match=r"does not answer|answers with an error"),
    ):
        address.check_answers(uri)
    assert len(asked) == len(statuses)
