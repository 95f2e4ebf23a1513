"""`calsweep ui` opens on a ranked leaderboard, and ends all its processes when it is terminated."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeps.search.record import TrialRecord
from tests.harness.ray_cluster import free_port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True)
class Served:
    """The running command, where it serves, and what it has printed."""

    process: subprocess.Popen[str]
    port: int
    lines: list[str]


@pytest.fixture(scope="module")
def served(storage: Path, written: list[TrialRecord]) -> Iterator[Served]:
    assert written
    port = free_port()
    command = [sys.executable, "-m", "sweeps.cli", "ui", "--storage", str(storage)]
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=storage, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if "MLflow is up" in line:
                    break
            yield Served(process, port, lines)
        finally:
            process.kill()


@pytest.mark.slow
def test_its_link_opens_on_the_ranked_leaderboard(served: Served, chromium: str) -> None:
    from playwright.sync_api import sync_playwright

    lines = served.lines
    with sync_playwright() as playwright:
        (link,) = [word for line in lines for word in line.split() if "/experiments/" in word]
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.goto(link)
        page.get_by_text("error too high").first.wait_for(timeout=150_000)
        shown = page.locator(".ag-body-viewport [col-id='tags.`rank`']").all_inner_texts()
        # The sweep's own run, the two of the selected setting, the others by rank, the rest.
        assert [text.strip() for text in shown] == [
            *("–", "1", "1", "2", "2", "3"),
            *("error too high", "failed", "stopped"),
        ]
        ends = []
        for tag in ("rank", "test error"):
            box = page.locator(f".ag-header-cell[col-id='tags.`{tag}`']").bounding_box()
            assert box is not None
            ends.append(box["x"] + box["width"])
        assert ends[0] < ends[1] < 1200
        browser.close()


@pytest.mark.slow
def test_no_server_outlives_the_command(served: Served) -> None:
    assert "MLflow is up" in served.lines[-1]
    assert listens(served.port)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=60) == 0
    assert not listens(served.port)
