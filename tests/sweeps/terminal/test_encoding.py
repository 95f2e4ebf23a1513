"""Output to terminals and pipes that cannot encode all characters."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.builders import baseline, make_sweep, new_store, trial
from tests.harness.command import CALSWEEP


@pytest.mark.parametrize("command", ["show", "watch"])
def test_commands_print_without_utf_8(tmp_path: Path, command: str) -> None:
    sweep = make_sweep("small")
    store = new_store(tmp_path / "calsweep-store", sweep, [baseline(), trial(1, val_ece=0.02)])
    store.save_answer({})
    done = subprocess.run(
        [CALSWEEP, command, "small"],
        cwd=tmp_path,
        env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        capture_output=True,
        encoding="ascii",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "trial 0, T = 1.50" in done.stdout.replace("\n", " ")
    assert re.search(r"^focal \?=1 +\.1000 +\.0200 .* selected", done.stdout, re.MULTILINE)
