"""Output that cannot be written: a full disk, a closed pipe, a dead terminal."""

import io
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from sweeps.store.driver_log import driver_log
from sweeps.store.sweep_store import SweepStore
from sweeps.terminal.console import plain_console
from sweeps.terminal.progress import Progress
from tests.builders import make_sweep, new_store
from tests.harness.command import CALSWEEP

SMALL = """
name: small
dataset: {name: digits, train_samples: 200}
model: {name: small_cnn, width: 4}
losses: [focal]
training: {epochs: 1}
search: {sampler: tpe, trials: 1}
selection: {finalists: 1, seeds: 0}
reference: none
"""


def full_disk() -> TextIO:
    return open("/dev/full", "w")


def closed_pipe() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def closed_stream() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.fixture(params=[full_disk, closed_pipe, closed_stream])
def unwritable(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    stream: TextIO = request.param()
    yield stream
    with suppress(OSError):
        stream.close()


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_progress_continues_without_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unwritable: TextIO, name: str
) -> None:
    store = new_store(tmp_path, make_sweep("small"))
    console = plain_console(stderr=name == "stderr", lasting=True)
    with driver_log(store) as log:
        monkeypatch.setattr(sys, name, unwritable)
        with Progress(console) as progress:
            progress.stage("Loading data")
            progress.notice("two samples are skipped")
            progress.fault("the disk is full")
        logging.getLogger("calsweep").info("the end")
    said = log.read_text()
    for line in ("Loading data ...", "two samples are skipped", "the disk is full; waiting"):
        assert said.count(line) == 1


def test_a_lasting_console_writes_where_it_can(capsys: pytest.CaptureFixture[str]) -> None:
    plain_console(lasting=True).print("to [/out]")
    plain_console(stderr=True, lasting=True).print("to [/error]")
    assert capsys.readouterr() == ("to [/out]\n", "to [/error]\n")


@pytest.mark.parametrize("stream", [full_disk, closed_pipe])
def test_a_message_that_cannot_be_printed_keeps_its_exit_code(
    tmp_path: Path, stream: Callable[[], TextIO]
) -> None:
    with stream() as unwritable:
        done = subprocess.run([CALSWEEP, "show", "x"], cwd=tmp_path, stderr=unwritable, check=False)
    assert done.returncode == 2


@pytest.mark.slow
def test_a_sweep_ends_well_without_output(tmp_path: Path) -> None:
    """Like `calsweep run sweep.yaml > run.log 2> >(head -1)` on a full disk."""
    (tmp_path / "sweep.yaml").write_text(SMALL)
    with full_disk() as out, closed_pipe() as error:
        done = subprocess.run(
            [CALSWEEP, "run", "sweep.yaml", "--storage", str(tmp_path / "store")],
            cwd=tmp_path,
            stdout=out,
            stderr=error,
            check=False,
        )
    store = SweepStore(str(tmp_path / "store"), "small")
    assert (done.returncode, store.load_answer() is not None) == (0, True)
    said = (Path(store.folder.path) / "driver.log").read_text()
    assert "Starting the first trials ..." in said
    assert " selected" in said
