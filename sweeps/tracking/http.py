"""Requests that are repeated after a lost reply or an overload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from requests import Session

_PAUSE: Final = 0.5  # seconds before the last try
_MORE_TRIES: Final = 2
_NOT_NOW: Final = (408, 429, *range(500, 600))  # statuses


def patient_session() -> Session:
    """A session whose requests have three tries within seconds, whatever their method."""
    from requests import Session  # its import takes longer than a short command
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    retries = Retry(
        _MORE_TRIES,
        allowed_methods=None,
        backoff_factor=_PAUSE / 2,
        status_forcelist=_NOT_NOW,
        raise_on_status=False,
        respect_retry_after_header=False,
    )
    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retries))
    return session
