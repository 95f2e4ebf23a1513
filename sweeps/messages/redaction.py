"""Removes credentials from addresses in everything that is shown or stored."""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback

REDACTED = "***"

# Everything before the last @, because passwords may contain unquoted @ and /.
_NAME_AND_PASSWORD = re.compile(r"://[^\s/?#@:\"<>]*:(?:\"[^\"]*\"|[^\s\"<>]*)@")
_TOKEN = re.compile(r"\b(https?)://[^\s/?#@:\"'<>]+@", re.IGNORECASE)
_OPTION = re.compile(
    r"([?&;](?:[\w.-]*(?:password|passwd|pwd|secret|token|credential|signature|access_?key"
    r"|account_?key|api_?key)[\w.-]*|sig|key|auth|code)=)[^\s&;#\"'<>]+",
    re.IGNORECASE,
)
# The path of a webhook is its password.
_WEBHOOK = re.compile(r"(\bnotify[\"']?\s*[:=]\s*[\"']?https?://[^\s/\"']+/)[^\s\"'},]+")
# A connection string of the form `host=db user=me password=...`.
_SETTING = re.compile(
    r"((?:^|\s)[\w.-]*(?:password|passwd|pwd)\s*=\s*)[^\s;&\"'<>]+", re.IGNORECASE
)
_QUOTED = re.compile(
    r"((?:password|passwd|pwd)[\w.-]*[\"']?\s*[:=]\s*([\"']))(?:(?!\2)[^\n])+(?=\2)", re.IGNORECASE
)


def redact(text: str) -> str:
    """A text without the credentials in its addresses.

    ``s3://KEY:SECRET@bucket`` becomes ``s3://***@bucket``; the values of options such as
    ``?secret_key=…``, and of ``password=…`` in a connection string or ``"password": "…"``, become
    ``***`` too, and the path of a webhook, ``notify: https://host/***``.
    """
    text = _NAME_AND_PASSWORD.sub(f"://{REDACTED}@", text)
    text = _TOKEN.sub(rf"\1://{REDACTED}@", text)
    text = _WEBHOOK.sub(rf"\1{REDACTED}", text)
    text = _QUOTED.sub(rf"\1{REDACTED}", text)
    return _SETTING.sub(rf"\1{REDACTED}", _OPTION.sub(rf"\1{REDACTED}", text))


def without_credentials(uri: str) -> str:
    """The same address without ``user:password@`` and options."""
    scheme, mark, place = _NAME_AND_PASSWORD.sub("://", uri).partition("://")
    if not mark:
        return uri
    host, slash, path = re.split("[?#]", place)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


class RedactingFormatter(logging.Formatter):
    """Formats log lines and tracebacks without the credentials in addresses."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def redact_what_python_prints() -> None:
    """Redact tracebacks of threads, and warnings that go into no log, from now on."""
    threading.excepthook = lambda hook: print_traceback(hook.exc_value or hook.exc_type())
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(RedactingFormatter())


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an unexpected error, redacted."""
    print(redact("".join(traceback.format_exception(error))), end="", file=sys.stderr)


def is_redacted(text: str) -> bool:
    """Whether credentials were left out of a text."""
    places = f"://{REDACTED}@", f"={REDACTED}", f'"{REDACTED}"', f"'{REDACTED}'"
    return any(place in text for place in places) or text.endswith(f"/{REDACTED}")
