"""A client of a Ray cluster's job server, with one clear message per error."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sweeps.cluster.ray_internals import variable_set
from sweeps.errors import UserError
from trainables.plugins.arguments import first_line

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

API_SERVER: Final = "RAY_API_SERVER_ADDRESS"  # an environment variable
_DEFAULT_URL = "http://127.0.0.1:8265"
_THIS_MACHINE = ("auto", "local")  # RAY_ADDRESS need not be a URL
_PATIENCE_SECONDS = 5.0
_LONGEST_ANSWER_SECONDS = 8.0  # a command reports a dashboard that hangs within 10 seconds


def dashboard_url(address: str | None) -> str:
    """The URL of a cluster's dashboard; a UserError if the address is malformed.

    By default ``RAY_API_SERVER_ADDRESS``, else ``RAY_ADDRESS``, else that of this machine.
    """
    variable, given = ("", address) if address else _address_in_environment()
    url = given if "://" in given else f"http://{given}"
    if not _is_allowed(url):
        allowed = (
            "not allowed; allowed: the URL of the cluster's dashboard, such as "
            f"{_DEFAULT_URL} or https://ray.example.org (by default {API_SERVER})"
        )
        if variable:
            raise UserError(f"{variable} = {given!r} is {allowed}")
        raise UserError(allowed, "address", given)
    return url.rstrip("/")


def job_page(job: str, address: str | None) -> str:
    """The link to a job in the cluster's dashboard."""
    return f"{dashboard_url(address)}/#/jobs/{job}"


def names_cluster(address: str | None) -> bool:
    """Whether the option or a variable names a cluster."""
    return bool(address or {API_SERVER, "RAY_ADDRESS"} & os.environ.keys())


def _address_in_environment() -> tuple[str, str]:
    """The variable that gives the address, and the address."""
    if given := os.environ.get(API_SERVER):
        return API_SERVER, given
    given = os.environ.get("RAY_ADDRESS", "auto")
    return "RAY_ADDRESS", _DEFAULT_URL if given in _THIS_MACHINE else given


def _is_allowed(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    known = parts.scheme == "https" or (parts.scheme == "http" and port is not None)
    return bool(known and parts.hostname)


def ask(address: str | None, call: str, longest: float | None = None) -> Any:
    """The reply of the job server to a REST call such as ``/api/jobs/``; errors as below.

    Ray's own client is used only for changes, because importing it takes longer than any reply.
    `longest` is the time for an answer, in seconds, if it takes longer than usual.
    """
    import requests

    url = dashboard_url(address)
    patience = _PATIENCE_SECONDS, longest or _LONGEST_ANSWER_SECONDS
    try:
        reply = requests.get(url + call, headers=token_header(), timeout=patience)
        if reply.status_code in (401, 403):
            raise UserError(_wrong_token(url, str(reply.status_code)))
        reply.raise_for_status()
        return reply.json()
    except requests.HTTPError as error:
        raise UserError(f"{url} refuses: {_first_line(error)}") from None
    except OSError as error:  # among them all errors of `requests`
        raise UserError(_no_answer(url, error)) from None


def token_header() -> dict[str, str]:
    """The header with the token, as Ray's own client sends it; empty without a token."""
    if not _asks_for_token():
        return {}
    token = os.environ.get("RAY_AUTH_TOKEN")
    if not token:
        with suppress(OSError):
            token = _token_file().read_text(encoding="utf-8").strip()
    return {"Authorization": f"Bearer {token}"} if token else {}


def token_hint() -> str:
    """What a browser has to give to the dashboard, in brackets; empty without tokens."""
    if not _asks_for_token():
        return ""
    place = "RAY_AUTH_TOKEN" if os.environ.get("RAY_AUTH_TOKEN") else str(_token_file())
    return f" (asks for the token in {place})"


def _asks_for_token() -> bool:
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def _token_file() -> Path:
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")


@contextmanager
def connected_client(address: str | None) -> Iterator[JobSubmissionClient]:
    """A client of the job server at :func:`dashboard_url`.

    With ``RAY_AUTH_MODE=token``, Ray's client takes the token from ``RAY_AUTH_TOKEN``, from the
    file that ``RAY_AUTH_TOKEN_PATH`` names, or from ``~/.ray/auth_token``.

    Raises:
        UserError: The address is malformed, no cluster answers there, or the token is missing or
            wrong.
    """
    url = dashboard_url(address)
    parts = urlsplit(url)
    try:  # fails at once, while Ray itself would keep trying
        server = (parts.hostname or "", parts.port or 443)
        socket.create_connection(server, _PATIENCE_SECONDS).close()
    except OSError as error:
        raise UserError(_no_answer(url, error)) from None
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Ray's client reports every upload
    try:
        with variable_set(API_SERVER, url):  # it overrides the argument
            client = JobSubmissionClient(url)
        yield client
    except AuthenticationError as error:
        raise UserError(_wrong_token(url, str(error))) from None
    except OSError as error:  # among them all errors of `requests`
        raise UserError(_no_answer(url, error)) from None
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{url} refuses: {_first_line(error)}") from None
    finally:
        logging.disable(before)


def _no_answer(url: str, error: Exception) -> str:
    return (
        f"{url}: no Ray dashboard answers there ({_reason(error)}); give its address, and start "
        "the cluster's head with ray[default] installed, or open a tunnel to it: `ray dashboard "
        "cluster.yaml`"
    )


def _reason(error: Exception) -> str:
    """The reason of an error, without the object names of requests and urllib3."""
    inner = getattr(error.args[0] if error.args else None, "reason", error)
    text = _first_line(inner)
    return text.partition("): ")[2] or text


def _wrong_token(url: str, reason: str) -> str:
    what = "the token is not the cluster's" if "403" in reason or "failed" in reason else "no token"
    mode = "" if os.environ.get("RAY_AUTH_MODE") == "token" else "RAY_AUTH_MODE=token and "
    return (
        f"{url} asks for a token: {what}; set {mode}the token in RAY_AUTH_TOKEN, in the file that "
        "RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token"
    )


def _first_line(error: Exception) -> str:
    return first_line(re.sub(r"<[^>]*>", " ", str(error))) or type(error).__name__
