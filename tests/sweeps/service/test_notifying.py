"""Webhooks: a real HTTP server gets a message when a sweep has ended."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.messages.redaction import redact
from sweeps.planning.checks import check_sweep
from sweeps.results.explanation import result_of
from sweeps.search.plan import Plan
from sweeps.search.ranking import Ranking
from sweeps.search.rules import rule_of
from sweeps.service.notifying import notified
from sweeps.service.running import run_sweep
from sweeps.store.state import failure_noted
from sweeps.store.sweep_store import SweepStore
from tests.builders import Noted, baseline, make_sweep, new_store, trial


class Webhook(BaseHTTPRequestHandler):
    """Keeps the messages, and answers with a status."""

    received: ClassVar[list[dict[str, Any]]]
    status: ClassVar[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(json.loads(body))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def webhook() -> Iterator[tuple[str, type[Webhook]]]:
    Webhook.received, Webhook.status = [], 200
    with HTTPServer(("127.0.0.1", 0), Webhook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/T0/secret", Webhook
        server.shutdown()


def test_a_finished_sweep_sends_its_recommendation(
    tmp_path: Path, webhook: tuple[str, type[Webhook]]
) -> None:
    url, server = webhook
    sweep = make_sweep("birds", tracking={"notify": url})
    records = [baseline(val_ece=0.05), trial(1, val_ece=0.02)]
    store = new_store(tmp_path, sweep, records)
    with notified(url, store, Noted([])), failure_noted(store):
        store.save_answer(result_of(Ranking(records, rule_of(sweep)), Plan(sweep)).to_json())
    (message,) = server.received
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
    webhook: tuple[str, type[Webhook]],
    error: BaseException,
    state: str,
    text: str,
) -> None:
    url, server = webhook
    sweep = make_sweep("birds", tracking={"notify": url})
    store = new_store(tmp_path, sweep, [baseline()])
    with (
        pytest.raises(type(error)),
        notified(url, store, Noted([])),
        failure_noted(store),
    ):
        raise error
    (message,) = server.received
    assert message["state"] == state
    assert message["text"].startswith(text)


def test_a_webhook_that_fails_is_a_notice_without_its_path(
    tmp_path: Path, webhook: tuple[str, type[Webhook]]
) -> None:
    url, server = webhook
    server.status = 403
    said: list[str] = []
    for address in (url, "http://127.0.0.1:9/T0/secret"):  # no process listens there
        sweep = make_sweep("birds", tracking={"notify": address})
        with notified(
            sweep.tracking.notify, new_store(tmp_path / str(len(said)), sweep), Noted(said)
        ):
            pass
    refused, unheard = said
    assert refused == "tracking.notify: 127.0.0.1 did not take the message: status 403"
    assert unheard.startswith("tracking.notify: 127.0.0.1 did not take the message: ")
    assert "secret" not in unheard


def test_a_run_sends_it_at_its_end(tmp_path: Path, webhook: tuple[str, type[Webhook]]) -> None:
    url, server = webhook
    sweep = make_sweep(
        "birds",
        dataset={"name": "digits", "train_samples": 100},
        model={"name": "small_cnn", "width": 4},
        losses=["focal"],
        training={"epochs": 1},
        search={"trials": 1},
        selection={"finalists": 0},
        tracking={"notify": url},
    )
    run_sweep(sweep, str(tmp_path), debug=True)
    (message,) = server.received
    assert message["state"] == "finished"
    assert message["storage"] == str(tmp_path)
    stored = SweepStore(str(tmp_path), "birds").folder.read("sweep.yaml").decode()
    assert "notify: http://127.0.0.1:" in redact(stored)
    assert "secret" not in redact(stored)


def test_a_url_that_cannot_be_one_or_was_redacted_is_refused() -> None:
    for url in ("hooks.example.org", "ftp://x/y", "https:///x"):
        with pytest.raises((UserError, ValidationError), match="notify"):
            make_sweep(tracking={"notify": url})
    with pytest.raises(UserError, match=r"tracking\.notify = .* lacks the credentials"):
        check_sweep(make_sweep(tracking={"notify": "https://hooks.example.org/***"}))
