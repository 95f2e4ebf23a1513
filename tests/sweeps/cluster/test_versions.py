"""Different versions of Ray here and on a cluster."""

import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest
from ray._private.utils import check_version_info, compute_version_info

from sweeps.cluster.versions import OLDEST, TOO_NEW, driver_mismatch

ROOT = Path(__file__).parents[3]


def test_the_range_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (ray,) = (each for each in project["optional-dependencies"]["sweeps"] if each.startswith("ray"))
    found = re.fullmatch(r"ray\[.*\]>=(\d+)\.(\d+),<(\d+)", ray)
    assert found is not None
    oldest, minor, newest = map(int, found.groups())
    assert ((oldest, minor), (newest, 0)) == (OLDEST, TOO_NEW)


def test_a_driver_on_another_ray_reports_both_versions() -> None:
    ours, python = compute_version_info()
    with pytest.raises(RuntimeError) as refused:
        check_version_info({"ray_version": "2.50.1", "python_version": python}, "here")
    said = driver_mismatch(str(refused.value))
    assert said is not None
    assert f"the cluster runs Ray 2.50.1 on Python {python}, this machine Ray {ours} on" in said
    assert driver_mismatch("Could not find any running Ray instance.") is None


@pytest.fixture
def cluster() -> Iterator[tuple[str, dict[str, str]]]:
    """A job server that reports its Ray version and records other requests."""
    ray = {"version": "2.99.0", "asked": ""}

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ray["asked"] += f"{self.path} "
            body = f'{{"ray_version": "{ray["version"]}"}}' if "version" in self.path else "[]"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            ray["asked"] += f"POST {self.path} "
            self.send_error(500)

        do_PUT = do_POST

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", ray
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (version("ray"), ""),
        ("2.99.0", "runs Ray 2.99.0, this machine {ours}: the job uses the former"),
        ("2.54.1", "runs Ray 2.54.1 (this machine {ours}); calsweep needs Ray 2.55 or newer"),
        ("3.0.0rc1", "runs Ray 3.0.0rc1 (this machine {ours}); calsweep needs Ray 2.55 or newer"),
    ],
)
def test_a_difference_is_reported_before_anything_is_sent(
    cluster: tuple[str, dict[str, str]], tmp_path: Path, theirs: str, message: str
) -> None:
    url, ray = cluster
    ray["version"] = theirs
    command = [sys.executable, "-m", "sweeps.cli", "resume", "birds", "--address", url]
    done = subprocess.run(
        [*command, "--storage", "s3://bucket/x"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert message.format(ours=version("ray")) in done.stderr
    refused = "calsweep needs" in message
    assert ("runs Ray" in done.stderr) == bool(message)
    assert ("/api/jobs/" in ray["asked"]) != refused
    assert "Traceback" not in done.stderr
    assert done.returncode == 2
    if refused:
        assert "POST" not in ray["asked"]
