"""A message to a webhook when a sweep has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from sweeps.messages.redaction import redact
from sweeps.messages.reporter import Reporter
from sweeps.service.stored import StoredSweep
from sweeps.store.state import ended_state, failure_of
from sweeps.store.sweep_store import SweepStore

_SECONDS = 10.0
_ENDED = {"finished": "has finished", "failed": "has failed", "stopped": "was stopped"}


@contextmanager
def notified(url: str | None, store: SweepStore, reporter: Reporter) -> Iterator[None]:
    """Context: at its end, however that comes about, ``tracking.notify`` gets a message.

    A webhook that does not take it is a notice, never an error.
    """
    try:
        yield
    finally:
        if url is not None:
            _post(url, store, reporter)


def _post(url: str, store: SweepStore, reporter: Reporter) -> None:
    import requests

    try:
        requests.post(url, json=message_of(store), timeout=_SECONDS).raise_for_status()
    except (OSError, ValueError) as error:  # among them all errors of `requests` and the storage
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = f"status {status}" if status else type(error).__name__
        host = urlsplit(url).hostname  # the rest may be a secret
        reporter.notice(f"tracking.notify: {host} did not take the message: {reason}")


def message_of(store: SweepStore) -> dict[str, Any]:
    """How a sweep has ended; ``text`` says it in words, which chat services show."""
    state = ended_state(store)
    reason = failure_of(store) or ""
    recommended = None
    if state == "finished":
        recommended = StoredSweep.read(store.name, store.storage).result.recommended
    further = recommended.text if recommended else reason
    text = f"Sweep {store.name} {_ENDED[state]}. {further}"
    return {
        "sweep": store.name,
        "state": state,
        "storage": redact(store.storage),
        "reason": reason or None,
        "recommended": recommended.name if recommended else None,
        "text": redact(text.strip()),
    }
