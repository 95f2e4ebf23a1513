"""The cause of an error on one line."""

import re
import subprocess
import sys
import traceback

import pytest

from sweeps.errors import cause


def fail() -> None:
    raise KeyError("training_seconds")


def chained() -> None:
    try:
        fail()
    except KeyError as error:
        raise RuntimeError("of a new kind\nmore") from error


class TuneError(Exception):
    """An error like Tune's, whose message is the traceback of another one."""


def as_tune_raises_it() -> None:
    try:
        fail()
    except KeyError:
        raise TuneError(traceback.format_exc()) from None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (fail, "KeyError: 'training_seconds'"),
        (as_tune_raises_it, "KeyError: 'training_seconds'"),
        (chained, "RuntimeError: of a new kind"),
    ],
)
def test_the_cause_is_the_last_error_and_where_it_was_raised(function: object, said: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function()  # type: ignore[operator]
    assert re.fullmatch(
        f"{re.escape(said)}, tests/sweeps/test_errors.py, line \\d+", cause(caught.value)
    )


def test_an_error_without_a_traceback_has_no_place() -> None:
    assert cause(ValueError("bad")) == "ValueError: bad"
    assert cause(ValueError()) == "ValueError"


INTERRUPTED = """
import sys, typer
from sweeps import cli
cli.app = typer.Typer()
@cli.app.command()
def command():
    raise KeyboardInterrupt
sys.argv = ["calsweep"]
cli.main()
"""


def test_an_interrupted_command_says_so() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.strip()) == (130, "calsweep: interrupted")
