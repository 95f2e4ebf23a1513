"""Errors that end a command: what they name, and their cause on one line."""

import ast
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import sweeps
from sweeps.cli import app
from sweeps.errors import UserError, cause


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


@pytest.mark.parametrize(
    ("error", "in_python", "in_shell"),
    [
        (
            UserError("no such file", "trial", 7),
            "trial = 7: no such file",
            "--trial 7: no such file",
        ),
        (UserError("needs onnx", "onnx"), "onnx: needs onnx", "--onnx: needs onnx"),
        (
            UserError("too long", "older_than", "9y"),
            "older_than = 9y: too long",
            "--older-than 9y: too long",
        ),
        (
            UserError("give `ignore_label=-100` or `logits=true`"),
            "give `ignore_label=-100` or `logits=true`",
            "give --ignore-label -100 or --logits",
        ),
        (UserError("search.trials = 0"), "search.trials = 0", "search.trials = 0"),
        (
            UserError("bad", "address", "u://a:b@c"),
            "address = u://***@c: bad",
            "--address u://***@c: bad",
        ),
    ],
)
def test_an_argument_is_a_key_in_python_and_an_option_in_the_shell(
    error: UserError, in_python: str, in_shell: str
) -> None:
    assert (str(error), error.in_shell) == (in_python, in_shell)


ROOMS = Path(sweeps.__path__[0])
WITH_OPTIONS = {"cli.py", "commands", "judging", "slurm.py", "formatting.py"}


def texts_in(tree: ast.AST) -> Iterator[str]:
    """The texts in a module without docstrings and commands; ``{}`` is a value."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                texts = (
                    str(each.value) if isinstance(each, ast.Constant) else "{}" for each in parts
                )
                yield "".join(texts)
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Call(func=ast.Name(id="calsweep_command" | "resume_command")):
                pass
            case _:
                yield from texts_in(node)


def test_messages_of_lower_rooms_name_keys_instead_of_options() -> None:
    commands = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    names = {name for command in commands for each in command.params for name in each.opts}
    options = {name for name in names if name.startswith("--")}
    found = []
    for file in ROOMS.rglob("*.py"):
        if not WITH_OPTIONS & {file.name, *file.relative_to(ROOMS).parts}:
            for text in texts_in(ast.parse(file.read_text(encoding="utf-8"))):
                words = [word.rstrip(":;.,)") for word in re.sub(r"`[^`]*`", "", text).split()]
                if len(words) > 1 and options.intersection(words):
                    found.append(f"{file.name}: {text}")
    assert found == []


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
