"""Credentials in addresses are never shown, and stored only in the sweep file."""

import base64
import http.client
import http.server
import io
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeps.errors import SweepFailedError, UserError
from sweeps.messages.redaction import is_redacted, redact, without_credentials
from sweeps.planning.checks import check_sweep
from sweeps.planning.portability import check_reachable
from sweeps.search.plan import Plan
from sweeps.search.trial_queue import TrialQueue
from sweeps.service.reading.writing import write_report
from sweeps.service.upkeep import sync_sweep
from sweeps.store.driver_log import driver_log
from sweeps.store.first_files import given_files, keep_given
from sweeps.store.identity import Identity, identity_files
from sweeps.sweep_file.loading import load_sweep
from sweeps.sweep_file.yaml_text import shortened
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from sweeps.tracking.address import artifact_location, check_answers
from sweeps.tracking.mirror import Mirror
from tests.builders import baseline, make_sweep, new_store, trial
from tests.harness.command import calsweep
from tests.harness.scene import MlflowServer


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://KEY:HUSH@bucket/x", "s3://***@bucket/x"),
        ("s3://KEY:HU/SH@bucket/x", "s3://***@bucket/x"),
        ("postgresql+pg8000://u:HU@SH@host:5432/db", "postgresql+pg8000://***@host:5432/db"),
        ("at 'http://user:HUSH@host:5000/x' (refused)", "at 'http://***@host:5000/x' (refused)"),
        ('{"a": "s3://K:HUSH@b", "c": "d@e"}', '{"a": "s3://***@b", "c": "d@e"}'),
        ("https://HUSH@host/x", "https://***@host/x"),
        ("s3://b/x?region=eu&secret_key=HUSH&a=1", "s3://b/x?region=eu&secret_key=***&a=1"),
        (
            "s3://b/x?access_key=HUSH&amp;secret_key=HUSH",
            "s3://b/x?access_key=***&amp;secret_key=***",
        ),
        (
            "https://account/x?sv=1&X-Amz-Signature=HUSH",
            "https://account/x?sv=1&X-Amz-Signature=***",
        ),
        ("host=db user=me password=HUSH port=1", "host=db user=me password=*** port=1"),
        (
            "https://h/a?sig=HUSH&key=HUSH&auth=HUSH&code=HUSH&x=1",
            "https://h/a?sig=***&key=***&auth=***&code=***&x=1",
        ),
        ("user=me password='HU SH' port=1", "user=me password='***' port=1"),
        ('{"password": "HU SH", "a": 1}', '{"password": "***", "a": 1}'),
        ('mysql://u:"HU SH"@a/x', "mysql://***@a/x"),
        ("MLFLOW_TRACKING_PASSWORD=HUSH", "MLFLOW_TRACKING_PASSWORD=***"),
        ("mysql://u:HUSH@a/x, mysql://u:HUSH@b/y", "mysql://***@a/x, mysql://***@b/y"),
    ],
)
def test_credentials_are_left_out(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown
    assert is_redacted(shown) and not is_redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:5000/#/experiments/1?viewStateShareKey=calsweep",
        "sqlite:////data/mlflow.db",
        "https://host/x?hotkey=1&monkey=2 and keys: code=3",
        "postgresql://mlflow@127.0.0.1:5432/mlflow",
        "abfss://container@account.dfs.core.windows.net/x",
        "s3://bucket/x?endpoint_override=http://127.0.0.1:9000 and me@example.org",
        "model.max_tokens=512 passwords = none",
        "γ=4.7: my_module:Loss @ 3 / 5",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert redact(text) == text
    assert not is_redacted(text)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:HUSH@host:5000/x?token=HUSH#a", "http://host:5000/x"),
        ("postgresql://me:HU/S@H@host/runs", "postgresql://host/runs"),
        ("sqlite:////data/x.db", "sqlite:////data/x.db"),
        ("sqlite:///x.db?timeout=5", "sqlite:///x.db"),
        ("/a/b", "/a/b"),
    ],
)
def test_an_address_without_credentials_keeps_its_place(uri: str, shown: str) -> None:
    assert without_credentials(uri) == shown


@pytest.mark.parametrize("kind", [UserError, SweepFailedError])
def test_messages_of_commands_have_no_credentials(kind: type[Exception]) -> None:
    assert str(kind("storage = 's3://K:HUSH@b' cannot be used")) == (
        "storage = 's3://***@b' cannot be used"
    )


def test_output_of_a_sweep_has_no_credentials() -> None:
    text = io.StringIO()
    with Progress(plain_console(file=text)) as progress:
        progress.stage("at s3://K:HUSH@b")
        progress.notice("trial 3: s3://K:HUSH@b/x is away")
        progress.fault("s3://K:HUSH@b/x is away")
    assert "HUSH" not in text.getvalue()
    assert text.getvalue().count("s3://***@b") == 3


CRASHES = """
import logging, sys, threading
from sweeps import cli

def crash(name):
    raise RuntimeError(f"a bug with {name}")

def crashes_here_and_there(name: str) -> None:
    logging.getLogger("calsweep").warning("near %s", name)
    thread = threading.Thread(target=crash, args=[name])
    thread.start()
    thread.join()
    crash(name)

cli.app.command("crash")(crashes_here_and_there)
cli.main()
"""


def test_a_traceback_has_no_credentials(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRASHES, "crash", "s3://K:HUSH@b"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("near s3://***@b")
    assert done.stderr.count("RuntimeError: a bug with s3://***@b") == 2
    assert "in crash" in done.stderr
    assert "HUSH" not in done.stdout + done.stderr


def test_usage_errors_have_no_credentials(tmp_path: Path) -> None:
    done = calsweep(tmp_path, "run", "x.yaml", "s3://K:HUSH@b")
    assert done.returncode == 2
    assert "s3://***@b" in done.stderr
    assert "HUSH" not in done.stderr


def test_truncated_values_have_no_credentials() -> None:
    assert "HUSH" not in shortened("postgresql://user:HUSH" + "HUSH" * 20 + "@host/db")


def test_sweep_file_errors_have_no_credentials(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("name: a\ndataset: digits\nmodel: small_cnn\nlosses: [focal]\n")
    with pytest.raises(UserError) as caught:
        load_sweep(str(path), ["training=http://u:HUSH@host"])
    assert "HUSH" not in str(caught.value)


def test_files_with_credentials_are_for_their_user_alone(tmp_path: Path) -> None:
    secrets = (
        {"tracking": {"notify": "https://hooks.example.org/T0/HUSH"}},
        {"tracking": {"uri": "http://me:HUSH@host:5000"}},
        {"dataset": {"name": "parquet", "train": "s3://K:HUSH@b/x", "test": "/y"}},
    )
    for number, sections in enumerate(({}, *secrets)):
        sweep = make_sweep(f"s{number}", **sections)
        store = new_store(tmp_path, sweep, files=given_files(sweep))
        other = sweep.model_copy(update={"search": sweep.search.model_copy(update={"trials": 9})})
        for act in (lambda _: None, store.change, partial(keep_given, store.folder)):
            act(other)
            for name in ("sweep.yaml", "given.json"):
                mode = (Path(store.folder.path) / name).stat().st_mode & 0o077
                assert bool(mode) == (not sections), (name, sections)


@pytest.mark.parametrize("place", ["s3://b/x?secret_key=HUSH", "s3://K:HUSH@b/x"])
def test_jobs_get_no_credentials(place: str) -> None:
    with pytest.raises(UserError, match="storage holds a password"):
        check_reachable(place)


def test_a_copy_of_what_was_shown_is_reported_from_the_original() -> None:
    sweep = make_sweep(
        dataset={"name": "parquet", "train": "s3://***@b/x.parquet", "test": "/x.parquet"},
        tracking={"uri": "http://***@host:5000"},
    )
    with pytest.raises(UserError) as caught:
        check_sweep(sweep)
    data, tracking = str(caught.value).splitlines()
    assert data.startswith("dataset.train = 's3://***@b/x.parquet' lacks the credentials")
    assert tracking.startswith("tracking.uri = 'http://***@host:5000' lacks the credentials")


def test_stored_files_have_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "HUSHHUSH"
    data = f"s3://KEY:{secret}@bucket/train.parquet"
    monkeypatch.setattr(sys, "argv", ["calsweep", "run", "--set", f"dataset.train={data}"])
    sweep = make_sweep("hidden", dataset={"name": "parquet", "train": data, "test": data})
    failed = trial(1, "focal", state="failed", reason=f"{data} cannot be read", history=[])
    identity = identity_files(Identity("d1", {}, 10, {}))
    store = new_store(tmp_path / "store", sweep, [baseline(), failed], files=identity)
    with driver_log(store):
        logging.getLogger("calsweep").error("see %s", data)
    writer = Mirror(Plan(sweep), store)
    for record in store.load_records():
        writer.show(record)
        writer.complete(record)
    write_report("hidden", str(tmp_path / "store"), str(tmp_path / "page.html"))
    kept = {path for path in tmp_path.rglob("*") if path.is_file()}
    found = {path.relative_to(tmp_path) for path in kept if secret.encode() in path.read_bytes()}
    assert {path.name for path in kept} >= {"page.html", "environment.json", "driver.log"}
    # The sweep's own file, by which it is resumed, has to have them, and the record was made by
    # this test alone.
    assert {str(path) for path in found} == {
        "store/sweeps/hidden/sweep.yaml",
        "store/sweeps/hidden/trials/00001/trial.json",
    }
    names = {path.name for path in tmp_path.rglob("*")}
    assert not any(secret in name for name in names)


def test_failure_reasons_have_no_credentials() -> None:
    queue = TrialQueue(Plan(make_sweep("hidden")), lambda record: None, num_classes=10)
    record = queue.next()
    assert record is not None
    queue.end(record.number, "failed", "s3://K:HUSH@b/x cannot be read")
    assert record.reason == "s3://***@b/x cannot be read"


def test_mlflow_records_storages_without_credentials() -> None:
    place = artifact_location("postgresql://u:p@host/db", "s3://KEY:HUSH@bucket/x?region=eu")
    assert place == "s3://bucket/x/artifacts"


def test_an_invalid_address_is_reported() -> None:
    with pytest.raises(UserError, match="does not answer"):
        check_answers("http://[x")


class _Gateway(http.server.BaseHTTPRequestHandler):
    """Forwards requests with the right name and password."""

    port: int
    behind: int
    expected = "Basic " + base64.b64encode(b"user:p@ss word").decode()

    def _pass_on(self) -> None:
        if self.headers["Authorization"] != self.expected:
            self.send_error(401)
            return
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        connection = http.client.HTTPConnection("127.0.0.1", self.behind, timeout=30)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def gateway() -> Iterator[type[_Gateway]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _Gateway.port = server.server_port
    yield _Gateway
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_credentials_in_a_tracking_address_work(
    tmp_path: Path, gateway: type[_Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = MlflowServer(f"sqlite:///{tmp_path / 'mlflow.db'}", str(tmp_path / "artifacts"))
    try:
        gateway.behind = int(server.uri.rpartition(":")[2])
        uri = f"http://user:p%40ss%20word@127.0.0.1:{gateway.port}"
        check_answers(uri)
        sweep = make_sweep("hidden", tracking={"uri": uri})
        new_store(tmp_path / "store", sweep, [baseline(), trial(1, "focal")])
        assert sync_sweep("hidden", str(tmp_path / "store")).trials == 2
        client = MlflowClient(server.uri)
        (experiment,) = client.search_experiments(filter_string="tags.calsweep = '1'")
        runs = client.search_runs([experiment.experiment_id])
        assert len(runs) == 3
        text = Path(client.download_artifacts(runs[0].info.run_id, "sweep.yaml")).read_text()
        assert f"uri: http://***@127.0.0.1:{gateway.port}" in text
    finally:
        server.kill()
