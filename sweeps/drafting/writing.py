"""Writes sweep files and batch scripts, each a new file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.errors import UserError
from sweeps.messages.files import write_text
from sweeps.sweep_file.loading import load_sweep, read_sweep

if TYPE_CHECKING:
    from sweeps.drafting.draft import Draft


def write_new_sweep_file(draft: Draft, name: str, trials: int, file: str) -> str:
    """Write a commented sweep file that tries so many settings; returns its path.

    Raises:
        UserError: The file already exists or cannot be written, or a name or number is not allowed.
    """
    from sweeps.drafting.draft import sweep_file_text
    from sweeps.planning.checks import check_sweep

    if os.path.lexists(file):
        raise UserError(f"{file}: already exists; name another file, or delete it")
    text = sweep_file_text(draft, name, trials)
    check_sweep(read_sweep(text, file))
    return os.path.relpath(write_text(text, file))


def write_batch_script(file: str) -> str:
    """Write a Slurm batch script for a sweep file, next to it; returns its path.

    Raises:
        UserError: There is no such sweep file, it is wrong, or the script already exists.
    """
    from sweeps.drafting.slurm import batch_script

    sweep = load_sweep(file)
    script = str(Path(file).with_suffix(".sbatch"))
    if os.path.lexists(script):
        raise UserError(f"{script}: already exists; delete it, or give the sweep file another name")
    write_text(batch_script(sweep.name, os.path.relpath(file)), script)
    return os.path.relpath(script)
