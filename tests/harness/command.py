"""Runs the command ``calsweep`` as users do."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CALSWEEP = str(Path(sys.executable).with_name("calsweep"))

# Importing PyTorch takes most of a short command's time. So the processes of commands are forked
# from one that has imported it, and nothing else of what a command is about.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "optuna"])


def calsweep(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, in a terminal of 120 columns.

    Args:
        folder: The working folder.
        arguments: Of the command.
        environment: None for this process's.
        variables: Further ones.
    """
    base = os.environ if environment is None else environment
    with tempfile.TemporaryDirectory(prefix="calsweep-said-") as said:
        process = FORKS.Process(
            target=_command,
            args=(str(folder), arguments, {**base, "COLUMNS": "120", **variables}, said),
        )
        process.start()
        process.join(240)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"calsweep {' '.join(arguments)} takes more than 240 s")
        stdout, stderr = ((Path(said) / name).read_text() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess(arguments, process.exitcode, stdout, stderr)


def _command(
    folder: str, arguments: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    """The code of the forked process: acts as if the command had been started there."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{said}/{name}", os.O_WRONLY | os.O_CREAT), descriptor)
    installed = [path for path in sys.path if "site-packages" in path or "/lib/python" in path]
    root = str(Path(__file__).parents[2])  # the source folder, which tests use
    given = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [str(Path(CALSWEEP).parent), *given, *installed, root]
    sys.argv = [CALSWEEP, *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from sweeps.cli import main

    main()


def start_calsweep(folder: Path, *arguments: str, **streams: Any) -> subprocess.Popen[Any]:
    """Start it, as from a terminal.

    Args:
        folder: The working folder.
        arguments: Of the command.
        streams: For :class:`subprocess.Popen`.
    """
    return subprocess.Popen([CALSWEEP, *arguments], cwd=folder, preexec_fn=_hears_ctrl_c, **streams)


def _hears_ctrl_c() -> None:
    """Restores Ctrl-C, which background jobs and their children ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
