"""Contact with a job's cluster: lost and regained, and what a stopped job has left."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.errors import SweepFailedError, UserError
from sweeps.jobs import client, jobs
from sweeps.messages.formatting import SUBMITTED_TO
from sweeps.service.backend import interrupted
from tests.builders import make_sweep, new_store


def following(monkeypatch: pytest.MonkeyPatch, *outputs: str | None) -> list[str]:
    """What ``logs --follow`` prints of these outputs; None and later the cluster is away.

    The job has ended with the last one if that is no None.
    """
    left = list(outputs)

    def ask(address: str | None, call: str) -> dict[str, Any]:
        if not left or left[0] is None:
            del left[:1]
            raise UserError("no Ray dashboard answers there")
        if call.endswith("/logs"):
            return {"logs": left.pop(0)}
        details = {"submission_id": "birds-1", "entrypoint": "run", "metadata": METADATA}
        return {**details, "status": "RUNNING" if len(left) > 1 else "SUCCEEDED"}

    monkeypatch.setattr(jobs, "ask", ask)
    monkeypatch.setattr(jobs, "_SECONDS_BETWEEN_LOOKS", 0.0)
    return list(jobs.logs(A_JOB, "http://head:8265", True, said.append))


METADATA = {"calsweep_sweep": "birds", "calsweep_storage": "s3://b/store"}
A_JOB = jobs.Job("birds-1", "birds", "s3://b/store", "run", "RUNNING", "", 0.0, None)
said: list[str] = []


def test_a_log_that_is_followed_reconnects_and_repeats_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said.clear()
    printed = following(monkeypatch, "a\n", "a\nb", None, "a\nb\n", None, None, "a\nb\nc\nd\n")
    assert "".join(printed) == "a\nb\nc\nd\n"
    assert said == ["the connection to http://head:8265 was lost; reconnecting"] * 2


def test_a_log_whose_cluster_is_gone_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SweepFailedError) as lost:
        following(monkeypatch, "a\n", None)
    place = "--address http://head:8265"
    assert f"`calsweep logs birds-1 --follow {place}` follows it" in str(lost.value)
    assert f"`calsweep resume birds --storage s3://b/store {place}` cont" in str(lost.value)


@pytest.mark.parametrize(
    ("entrypoint", "output", "begun"),
    [
        ("python -m sweeps.cli run sweep.yaml", "Loading digits and joining Ray ...\n", False),
        ("python -m sweeps.cli run sweep.yaml", "Starting the first trials ...\n", True),
        ("python -m sweeps.cli run a.yaml", "interrupted; `calsweep resume a` continues it", True),
        ("python -m sweeps.cli resume birds", "", True),
    ],
)
def test_a_stopped_job_can_be_resumed_once_its_sweep_exists(
    monkeypatch: pytest.MonkeyPatch, entrypoint: str, output: str, begun: bool
) -> None:
    monkeypatch.setattr(jobs, "ask", lambda address, call: {"logs": output})
    assert jobs.has_begun(replace(A_JOB, entrypoint=entrypoint), None) is begun


def test_a_dashboard_that_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client._LONGEST_ANSWER_SECONDS < 10
    monkeypatch.setattr(client, "_LONGEST_ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match=r"no Ray dashboard answers there .*timed out"):
            jobs.list_jobs(url)


def test_the_reason_of_a_failed_job_is_the_error_at_the_end_of_its_output() -> None:
    log = (
        "calsweep: no error\n2/9 trials · 1 running\n"
        "calsweep: every trial of 'birds' failed:\n  3 × loss is NaN\ncalsweep: more is in the log"
    )
    said = jobs._said_in(log, failed=True)
    assert said.progress == "2/9 trials · 1 running"
    reason = "every trial of 'birds' failed:\n  3 × loss is NaN\nmore is in the log"
    assert said.reason == reason
    assert jobs._said_in(log, failed=False).reason == ""
    trace = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'"
    assert jobs._said_in(trace, failed=True).reason == "ModuleNotFoundError: No module named 'x'"
    assert jobs._said_in("", failed=True) == jobs.Said("", "", "")


def test_a_taken_name_is_refused_before_a_job_starts(tmp_path: Path) -> None:
    sweep = make_sweep("birds")
    new_store(tmp_path, sweep)
    with pytest.raises(UserError) as refused:
        jobs.submit(sweep, str(tmp_path), "http://127.0.0.1:9", said.append)
    place = f"--storage {tmp_path} --address http://127.0.0.1:9"
    assert f"`calsweep resume birds {place}` or --or-resume continues it" in str(refused.value)
    with pytest.raises(UserError, match="no Ray dashboard answers"):
        jobs.submit(sweep, str(tmp_path), "http://127.0.0.1:9", said.append, or_resume=True)


def test_commands_in_the_output_of_a_job_name_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path, make_sweep("birds"))
    monkeypatch.setenv(SUBMITTED_TO, "http://127.0.0.1:8265")
    command = f"`calsweep resume birds --address http://127.0.0.1:8265 --storage {tmp_path}`"
    assert str(interrupted(store)) == f"interrupted; {command} continues it"
