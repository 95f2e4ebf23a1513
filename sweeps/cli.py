"""The ``calsweep`` command: adds the commands, and turns errors into messages and exit codes."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import typer

from sweeps.cluster.ray_internals import is_driver_of_a_job
from sweeps.commands import available, cluster, inspecting, judging, running, using  # noqa: F401
from sweeps.commands.app import app
from sweeps.errors import SweepFailedError, SweepInterruptedError, UserError
from sweeps.messages.events import Event, emit
from sweeps.messages.redaction import print_traceback, redact, redact_what_python_prints
from sweeps.terminal.lasting import discard_unwritable

_OBJECTS_BETWEEN_COLLECTIONS = 50_000
_INTERRUPTED = 130


def run() -> None:
    """Run the command as the whole process, which then ends without freeing each object.

    After a sweep, freeing the objects of some 6,000 modules takes seconds on a busy machine.
    """
    code = 1

    def leave() -> None:
        logging.shutdown()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # Python reports it
        os._exit(code)

    atexit.register(leave)  # Python calls the first one last
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def main() -> None:
    """Run the command; turn errors into a message and an exit code."""
    # Hundreds of modules make many objects but no garbage: collecting took a sixth of imports.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    redact_what_python_prints()
    _print_what_can_be_encoded()
    if is_driver_of_a_job():
        from sweeps.jobs.shipping import keep_what_was_sent

        keep_what_was_sent()
    try:
        sys.exit(_code())
    except UserError as error:
        _fail(error.in_shell, 2)
    except SweepFailedError as error:
        _fail(str(error), 1)
    except SweepInterruptedError as error:
        _fail(str(error), 130)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:
        discard_unwritable()
        sys.exit(1)
    except typer.Abort:
        _fail("aborted", 130)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's errors about the command line
            _fail(error.format_message() + _hint(sys.argv), 2)
        print_traceback(error)
        sys.exit(1)


def _code() -> int | None:
    code: int | None = app(standalone_mode=False)
    if code == _INTERRUPTED:  # what typer returns after Ctrl-C, without a message
        raise KeyboardInterrupt
    return code


def _hint(words: Sequence[str]) -> str:
    """What to write for a value that follows another one after a single --set."""
    for before, word in pairwise(words):
        if before != "--set" and re.fullmatch(r"[a-z_]+(\.\w+)*=.*", word):
            return f"; write --set before each value: --set {word}"
    return ""


def _print_what_can_be_encoded() -> None:
    """Replace other characters by ``?`` where the output is not in UTF-8, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _fail(message: str, code: int) -> None:
    emit(Event("failed", redact(message).strip("\n")))
    with suppress(OSError):  # the exit code is right without the message
        for line in redact(message).strip("\n").splitlines():
            prefix = "" if line.startswith(" ") else "calsweep: "
            print(f"{prefix}{line}", file=sys.stderr)
    discard_unwritable()
    sys.exit(code)


if __name__ == "__main__":
    run()
