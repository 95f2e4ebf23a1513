"""Requests that are repeated after a lost reply or an overload."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from requests import Response

_PAUSES: Final = 0.5, 1.0  # seconds between tries
_NOT_NOW: Final = (408, 429, *range(500, 600))  # statuses


def patiently(ask: Callable[[], Response]) -> Response:
    """The reply to a request, which has two more tries.

    The retries of urllib3 would log the path of a webhook, which is its password.
    """
    from requests import ConnectionError  # its import takes longer than a short command
    from requests.exceptions import SSLError, Timeout

    for pause in _PAUSES:
        try:
            if (reply := ask()).status_code not in _NOT_NOW:
                return reply
        except (SSLError, Timeout):  # another try would take as long, or fail as well
            raise
        except ConnectionError:
            pass
        time.sleep(pause)
    return ask()
