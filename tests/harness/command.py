"""Runs the command ``calsweep`` as users do."""

import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.harness.forks import BIN, FORKS, act_as_started, worker_server

CALSWEEP = str(BIN / "calsweep")
_DATABASE = "CALSWEEP_TESTS_DATABASE"  # environment variable: a file with MLflow's empty tables


def calsweep(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    typed: str = "",
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, in a terminal of 120 columns.

    Args:
        folder: The working folder.
        arguments: Of the command.
        environment: None for this process's.
        typed: Its standard input.
        variables: Further ones.
    """
    variables = {"COLUMNS": "120", **variables}
    with tempfile.TemporaryDirectory(prefix="calsweep-said-") as said:
        streams = [Path(said) / name for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(typed)
        code = exit_code(_fork(folder, arguments, streams, environment, variables))
        outputs = streams[1:]
        stdout, stderr = (output.read_text() for output in outputs)
    return subprocess.CompletedProcess(arguments, code, stdout, stderr)


_run = subprocess.run


def run_forked(command: Sequence[str], **options: Any) -> Any:
    """In place of ``subprocess.run``: forks ``[python, "-m", module, ...]``, and prints its output.

    Raises:
        AssertionError: Its exit code is not 0.
    """
    python, option, *words = command
    if (python, option) != (sys.executable, "-m"):
        return _run(command, **options)
    module, *arguments = words
    with tempfile.TemporaryDirectory(prefix="calsweep-said-") as said:
        output = Path(said) / "output"
        output.touch()
        streams = [Path(os.devnull), output, output]
        code = exit_code(_fork(Path.cwd(), arguments, streams, None, module=module))
        print(output.read_text(), end="")
    assert code == 0
    return None


def start_calsweep(
    folder: Path, *arguments: str, output: Path, environment: Mapping[str, str] | None = None
) -> BaseProcess:
    """Start it, and do not wait.

    Args:
        folder: The working folder.
        arguments: Of the command.
        output: A file to which it appends what it prints.
        environment: None for this process's.
    """
    output.touch()
    return _fork(folder, arguments, [Path(os.devnull), output, output], environment)


def exit_code(process: BaseProcess, seconds: float = 240) -> int:
    """Wait for a command's end.

    Raises:
        TimeoutError: It was still running, and is killed.
    """
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{process.name} takes more than {seconds} s")
    return process.exitcode


def send_signal(process: BaseProcess, number: int) -> None:
    """Send a signal to a command, such as SIGINT for Ctrl-C."""
    assert process.pid is not None
    os.kill(process.pid, number)


def _fork(
    folder: Path,
    arguments: Sequence[str],
    streams: list[Path],
    environment: Mapping[str, str] | None,
    variables: Mapping[str, str] = {},
    module: str = "sweeps.cli",
) -> BaseProcess:
    from tests.harness.database import empty_database
    from trainables.wrappers.forked_workers import ADDRESS

    base = os.environ if environment is None else environment
    if "run" in arguments or "resume" in arguments:
        variables = {_DATABASE: str(empty_database()), **variables}
        if "--debug" not in arguments:  # one server for their workers
            variables = {ADDRESS: worker_server(), **variables}
    process = FORKS.Process(
        target=_command,
        args=(folder, module, arguments, {**base, **variables}, streams),
        name=" ".join([module, *arguments]),
        daemon=True,  # it does not outlive the tests
    )
    process.start()
    return process


def _command(
    folder: Path,
    module: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    streams: list[Path],
) -> None:
    """The code of the forked process: acts as if the module had been started there."""
    os.chdir(folder)
    act_as_started(environment, streams)
    sys.argv = [CALSWEEP, *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if _DATABASE in environment:
        from tests.harness.database import copy_instead

        copy_instead(lambda: Path(environment[_DATABASE]))
    runpy.run_module(module, run_name="__main__")
