"""Workers of one training, and functions, in separate processes."""

import os
import runpy
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from tests.harness.forks import FORKS


def run_workers(script: Path, folder: Path, count: int = 2) -> dict[str, Any]:
    """Run ``python SCRIPT RANK FOLDER`` for ``count`` ranks.

    Returns:
        What they saved in the folder as ``.pt``, by name.
    """
    processes = [FORKS.Process(target=_work, args=(script, rank, folder)) for rank in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        process.kill()  # if it hangs
    errors = [path.read_text() for path in sorted(folder.glob("errors*"))]
    assert all(process.exitcode == 0 for process in processes), "\n".join(errors)
    return {path.stem: torch.load(path, weights_only=True) for path in folder.glob("*.pt")}


def in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of a module returns in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=FORKS) as pool:
        return pool.submit(function, *arguments).result()


def _work(script: Path, rank: int, folder: Path) -> None:
    os.dup2(os.open(folder / f"errors{rank}", os.O_WRONLY | os.O_CREAT), 2)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.argv = [str(script), str(rank), str(folder)]
    runpy.run_path(str(script), run_name="__main__")
