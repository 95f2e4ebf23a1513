"""Webhooks: a real HTTP server gets a message when a sweep has ended."""

import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.messages.redaction import redact
from sweeps.planning.checks import check_sweep
from sweeps.results.explanation import result_of
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service import notifying
from sweeps.service.notifying import Message, notified
from sweeps.service.running import resume_sweep, run_sweep
from sweeps.store.state import failure_noted
from sweeps.store.sweep_store import SweepStore
from sweeps.tracking import http
from tests.builders import Noted, baseline, make_sweep, new_store, trial
from tests.harness.ray_cluster import free_port
from tests.harness.webhook import Webhook


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.stop()


def test_a_finished_sweep_sends_its_recommendation(tmp_path: Path, webhook: Webhook) -> None:
    sweep = make_sweep("birds", tracking={"notify": webhook.url})
    records = [baseline(val_ece=0.05), trial(1, val_ece=0.02)]
    store = new_store(tmp_path, sweep, records)
    with notified(sweep.tracking, store, Noted([])), failure_noted(store):
        store.save_answer(result_of(Ranking(records, rule_of(sweep)), Plan(sweep)).to_json())
    (message,) = webhook.received
    assert (message["sweep"], message["state"]) == ("birds", "finished")
    assert message["recommended"] in message["text"]
    assert message["text"].startswith("Sweep birds has finished. ")


@pytest.mark.parametrize(
    ("error", "state", "text"),
    [
        (SweepFailedError("every trial failed:\nNaN"), "failed", "Sweep birds has failed. every"),
        (SweepInterruptedError("interrupted"), "stopped", "Sweep birds was stopped."),
        (KeyboardInterrupt(), "stopped", "Sweep birds was stopped."),
    ],
)
def test_other_ends_are_sent_too(
    tmp_path: Path,
    webhook: Webhook,
    error: BaseException,
    state: str,
    text: str,
) -> None:
    sweep = make_sweep("birds", tracking={"notify": webhook.url})
    store = new_store(tmp_path, sweep, [baseline()])
    with (
        pytest.raises(type(error)),
        notified(sweep.tracking, store, Noted([])),
        failure_noted(store),
    ):
        raise error
    (message,) = webhook.received
    assert message["state"] == state
    assert message["text"].startswith(text)


def test_a_webhook_that_fails_is_a_notice_without_its_path(
    tmp_path: Path, webhook: Webhook
) -> None:
    webhook.statuses = [403]
    said: list[str] = []
    for address in (webhook.url, "http://127.0.0.1:9/T0/secret"):  # no process listens there
        sweep = make_sweep("birds", tracking={"notify": address})
        with notified(sweep.tracking, new_store(tmp_path / str(len(said)), sweep), Noted(said)):
            pass
    refused, unheard = said
    assert refused == "tracking.notify: 127.0.0.1 did not take the message: status 403"
    assert unheard.startswith("tracking.notify: 127.0.0.1 did not take the message: ")
    assert "secret" not in unheard


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_run_sends_it_at_its_end(
    tmp_path: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the user does not wait for the model to be registered."""
    sweep = make_sweep(
        "birds",
        dataset={"name": "digits", "train_samples": 100},
        model={"name": "small_cnn", "width": 4},
        losses=["focal"],
        training={"epochs": 1},
        search={"trials": 1},
        selection={"finalists": 0},
        tracking={"notify": webhook.url, "register_model": True},
    )
    monkeypatch.setattr("sweeps.service.delivery.registering.register_delivered", interrupt)
    again = rf"`calsweep export birds --register --storage {tmp_path}` registers"
    with pytest.raises(SweepInterruptedError, match=again):
        run_sweep(sweep, str(tmp_path), debug=True)
    (message,) = webhook.received
    assert message["state"] == "finished"
    assert message["storage"] == str(tmp_path)
    with pytest.raises(SweepInterruptedError, match=again):
        resume_sweep("birds", str(tmp_path), debug=True)
    assert len(webhook.received) == 1  # as --or-resume does in a loop
    stored = SweepStore(str(tmp_path), "birds").folder.read("sweep.yaml").decode()
    assert "notify: http://127.0.0.1:" in redact(stored)
    assert "secret" not in redact(stored)


@pytest.mark.parametrize("statuses", [[301], [302, 307, 308], [503, 500], [503, 302]])
def test_a_message_survives_redirections_and_overload(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch, statuses: list[int]
) -> None:
    monkeypatch.setattr(http, "_PAUSES", (0.0, 0.0))
    monkeypatch.setenv(notifying.HEADERS, "Authorization: Bearer HUSH\nX-A: b")
    webhook.statuses = statuses
    message = Message("birds", "running", "/store", None, None, "text")
    assert notifying.Webhook(webhook.url, Noted([])).send(message)
    assert webhook.received == [asdict(message)]
    assert set(webhook.authorizations) == {"Bearer HUSH"}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n", "redirections"),
        (b"HTTP/1.1 303 See\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n", "status 303"),
        (b"HTTP/1.1 200 OK\r\n", "no reply within"),  # and then nothing
        (b"", "no reply within"),
    ],
)
def test_a_server_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, reply: bytes, reason: str
) -> None:
    monkeypatch.setattr(notifying, "_SECONDS", 0.5)
    said: list[str] = []

    class Slow(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(reply)
            self.wfile.flush()
            if not reply.endswith(b"\r\n\r\n"):
                over.wait(60)

        def log_message(self, *_: object) -> None: ...

    over = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/secret"
        message = Message("birds", "running", "/store", None, None, "text")
        assert not notifying.Webhook(address, Noted(said)).send(message)
        over.set()
        server.shutdown()
    assert len(said) == 1 and reason in said[0] and "secret" not in said[0]


def test_the_path_of_a_webhook_is_in_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also not in those of other packages, which a script may print."""
    monkeypatch.setattr(http, "_PAUSES", (0.0, 0.0))
    said: list[str] = []
    message = Message("birds", "running", "/store", None, None, "text")
    address = f"http://127.0.0.1:{free_port()}/secret"
    assert not notifying.Webhook(address, Noted(said)).send(message)
    assert said == ["tracking.notify: 127.0.0.1 did not take the message: ConnectionError"]
    assert "secret" not in caplog.text


def test_failures_and_a_standstill_are_announced(tmp_path: Path, webhook: Webhook) -> None:
    keys = {"notify_after_failures": 2, "notify_after_minutes": 0.005}
    sweep = make_sweep("birds", tracking={"notify": webhook.url, **keys})
    store = new_store(tmp_path, sweep, [baseline()])

    def wait_for(text: str) -> dict[str, Any]:
        until = time.monotonic() + 60
        while True:
            for message in list(webhook.received):
                if text in message["text"]:
                    return message
            assert time.monotonic() < until
            time.sleep(0.02)

    with notified(sweep.tracking, store, Noted([])) as (take,):
        for number in (1, 2, 3):
            take(trial(number, state="failed", reason="no memory", history=[]))
        failed = wait_for("Sweep birds: 2 trials failed, the last by: no memory")
        assert failed["state"] == "running"
        wait_for("Sweep birds: no epoch has ended for 0.005 minutes")
    texts = [message["text"] for message in webhook.received]
    assert sum("failed, the last" in text for text in texts) == 1
    assert texts[-1].startswith("Sweep birds was stopped.")


def test_a_url_that_cannot_be_one_or_was_redacted_is_refused() -> None:
    wrong = (
        "hooks.example.org",
        "ftp://x/y",
        "https:///x",
        "http://[::1/x",
        "http://h:9x/y",
        "http://a b",
    )
    for url in wrong:
        with pytest.raises(UserError, match=r"notify: .* is not allowed; allowed: an address such"):
            make_sweep(tracking={"notify": url})
    with pytest.raises(UserError, match="notify_after_failures is not allowed without notify"):
        make_sweep(tracking={"notify_after_failures": 3})
    with pytest.raises(UserError, match=r"tracking\.notify = .* lacks the credentials"):
        check_sweep(make_sweep(tracking={"notify": "https://hooks.example.org/***"}))
