"""Messages to a webhook: a sweep has ended, makes no progress, or many of its trials fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final
from urllib.parse import urljoin, urlsplit

from sweeps.errors import UserError
from sweeps.messages.formatting import counted
from sweeps.messages.redaction import redact
from sweeps.messages.reporter import Reporter
from sweeps.results.so_far import SweepState
from sweeps.search.record import TrialRecord
from sweeps.search.trial_queue import Listener
from sweeps.service.reading.stored import StoredSweep
from sweeps.store.state import ended_state, failure_of
from sweeps.store.storage import storage_faults
from sweeps.store.sweep_store import ANNOUNCED, SweepStore
from sweeps.sweep_file.sections.resources import TrackingSection
from sweeps.tracking.http import patiently

_SECONDS: Final = 10.0  # for all tries of one message
_REDIRECTIONS: Final = 5
_SAME_REQUEST: Final = 301, 302, 307, 308  # redirections, after which a webhook expects a POST
_ENDED: Final[dict[SweepState, str]] = {
    "finished": "has finished",
    "failed": "has failed",
    "stopped": "was stopped",
}
HEADERS: Final = "CALSWEEP_NOTIFY_HEADERS"
"""The variable with headers of messages, ``Name: value``, one a line. They are stored nowhere."""


@dataclass(frozen=True)
class Message:
    """What a webhook gets, as JSON; ``text`` says it in words, which chat services show."""

    sweep: str
    state: SweepState
    storage: str
    reason: str | None
    recommended: str | None
    text: str


@contextmanager
def notified(
    tracking: TrackingSection, store: SweepStore, reporter: Reporter
) -> Iterator[tuple[Listener, ...]]:
    """Context: ``tracking.notify`` gets a message at its end, however that comes about.

    It also gets some while the sweep runs, for which the yielded listeners watch. A webhook that
    does not take a message is a notice, never an error. A finished sweep is announced once.
    """
    if tracking.notify is None:
        yield ()
        return
    webhook = Webhook(tracking.notify, reporter)
    watchman = Watchman(tracking, store, webhook)
    try:
        yield (watchman.take,)
    finally:
        watchman.end()
        try:
            _announce_end(webhook, store)
        except UserError as error:  # the storage does not answer
            reporter.notice(f"tracking.notify: {error}")


class Watchman:
    """Sends a message when no epoch has ended for some time, and when many trials have failed.

    It watches from the beginning until :meth:`end`.
    """

    def __init__(self, tracking: TrackingSection, store: SweepStore, webhook: Webhook) -> None:
        minutes = tracking.notify_after_minutes
        self._failures = tracking.notify_after_failures
        self._store = store
        self._webhook = webhook
        self._failed: set[int] = set()
        self._progress = threading.Event()
        self._ended = False
        if minutes is not None:
            threading.Thread(target=self._watch, args=(60 * minutes,), daemon=True).start()

    def take(self, record: TrialRecord) -> None:
        """Called when a record has changed."""
        self._progress.set()
        if record.state == "failed" and record.number not in self._failed:
            self._failed.add(record.number)
            if len(self._failed) == self._failures:
                failed = f"{counted(self._failures, 'trial')} failed, the last by: {record.reason}"
                threading.Thread(target=self._send, args=(failed,), daemon=True).start()

    def end(self) -> None:
        """The sweep has ended."""
        self._ended = True
        self._progress.set()

    def _watch(self, seconds: float) -> None:
        while not self._ended:
            if not self._progress.wait(seconds):
                self._send(f"no epoch has ended for {seconds / 60:g} minutes")
                self._progress.wait()  # one message each time
            self._progress.clear()

    def _send(self, reason: str) -> None:
        name, storage = self._store.name, redact(self._store.storage)
        text = redact(f"Sweep {name}: {reason}")
        self._webhook.send(Message(name, "running", storage, redact(reason), None, text))


class Webhook:
    """An address that takes messages."""

    def __init__(self, url: str, reporter: Reporter) -> None:
        self._url = url
        self._reporter = reporter

    def send(self, message: Message) -> bool:
        """Post a message, with two more tries; returns whether it was taken."""
        outcome: list[str | None] = []
        # In a thread, because a server may send its reply a byte at a time.
        thread = threading.Thread(target=lambda: outcome.append(self._post(message)), daemon=True)
        thread.start()
        thread.join(_SECONDS)
        fault = outcome[0] if outcome else f"no reply within {_SECONDS:.0f} s"
        if fault is not None:
            host = urlsplit(self._url).hostname  # the rest may be a secret
            self._reporter.notice(f"tracking.notify: {host} did not take the message: {fault}")
        return fault is None

    def _post(self, message: Message) -> str | None:
        """Post it, also after redirections; returns why it was not taken."""
        import requests

        url, headers = self._url, _own_headers()
        for _ in range(_REDIRECTIONS):
            ask = partial(
                requests.post,
                url,
                json=asdict(message),
                headers=headers,
                timeout=_SECONDS,
                allow_redirects=False,  # it would repeat the request as a GET
                stream=True,  # its content is not read
            )
            try:
                with patiently(ask) as reply:
                    status, place = reply.status_code, reply.headers.get("Location")
            except (OSError, ValueError) as error:  # among them all errors of `requests`
                return type(error).__name__
            if status not in _SAME_REQUEST or place is None:
                return None if 200 <= status < 300 else f"status {status}"
            before, url = urlsplit(url), urljoin(url, place)
            if urlsplit(url)[:2] != before[:2]:
                headers = {}  # they are for the first server
        return "too many redirections"


def _own_headers() -> dict[str, str]:
    lines = os.environ.get(HEADERS, "").splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _announce_end(webhook: Webhook, store: SweepStore) -> None:
    with storage_faults(store.storage):
        state = ended_state(store)
        if state == "finished" and store.folder.exists(ANNOUNCED):
            return
        if webhook.send(message_of(store, state)) and state == "finished":
            store.folder.write(ANNOUNCED, b"{}")


def message_of(store: SweepStore, state: SweepState) -> Message:
    """How a sweep has ended."""
    reason = failure_of(store) or ""
    recommended = None
    if state == "finished":
        recommended = StoredSweep.read(store.name, store.storage).result.recommended
    further = recommended.text if recommended else reason
    return Message(
        sweep=store.name,
        state=state,
        storage=redact(store.storage),
        reason=redact(reason) or None,
        recommended=recommended.name if recommended else None,
        text=redact(f"Sweep {store.name} {_ENDED[state]}. {further}".strip()),
    )
