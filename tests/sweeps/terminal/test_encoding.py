"""Output to terminals and pipes that cannot encode all characters."""

import io
import re
import subprocess
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from sweeps.terminal.encoding import print_what_they_can
from sweeps.terminal.progress import Progress
from tests.builders import baseline, make_sweep, new_store, trial
from tests.harness.command import CALSWEEP


def printed(text: str, encoding: str) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_what_they_can([stream, None, io.StringIO()])
    stream.write(text)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", "g=4 l=0.1 - e x ?"),
        ("latin-1", "g=4 l=0.1 - é × ?"),
        ("utf-8", "γ=4 λ=0.1 – é × 猫"),
    ],
)
def test_one_character_stands_for_one(encoding: str, expected: str) -> None:
    assert printed("γ=4 λ=0.1 – é × 猫", encoding) == expected


def test_the_live_view_is_shown_too() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_what_they_can([stream])
    with Progress(Console(file=stream, force_terminal=True)) as progress:
        progress.stage("Loading γ")
        assert isinstance(progress._live, Live)
        progress._live.refresh()
    stream.flush()
    assert "* Loading g" in stream.buffer.getvalue().decode()  # type: ignore[attr-defined]


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
    assert re.search(r"^focal g=1 +\.1000 +\.0200 .* selected", done.stdout, re.MULTILINE)
