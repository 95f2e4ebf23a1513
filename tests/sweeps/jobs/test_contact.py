"""Contact with a job's cluster: lost and regained, and what a stopped job has left."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sweeps import cli
from sweeps.errors import SweepFailedError, UserError
from sweeps.jobs import client, jobs
from sweeps.messages.events import Event, emit
from sweeps.messages.formatting import SUBMITTED_TO
from sweeps.search.plan import Plan
from sweeps.search.trial_queue import TrialQueue
from sweeps.service.backend import interrupted
from sweeps.terminal.progress import Progress
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
    return list(jobs.logs(A_JOB, "http://head:8265", follow=True, on_notice=said.append))


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
    assert f"`calsweep resume birds {place} --storage s3://b/store` cont" in str(lost.value)


def output_of_a_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *events: Event
) -> str:
    """What a job prints of these events."""
    emit(Event("begun"))  # not in a job
    monkeypatch.setenv(SUBMITTED_TO, "http://head:8265")
    for event in events:
        emit(event)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("resumes", "events", "begun"),
    [
        (False, [], False),
        (False, [Event("progress", "begun")], False),
        (False, [Event("begun")], True),
        (True, [], True),
    ],
)
def test_a_stopped_job_can_be_resumed_once_its_sweep_exists(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    resumes: bool,
    events: list[Event],
    begun: bool,
) -> None:
    output = f"Starting the first trials\n{output_of_a_job(monkeypatch, capsys, *events)}"
    monkeypatch.setattr(jobs, "ask", lambda address, call: {"logs": output})
    assert jobs.has_begun(replace(A_JOB, resumes=resumes), None) is begun


def test_a_dashboard_that_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client._LONGEST_ANSWER_SECONDS < 10
    monkeypatch.setattr(client, "_LONGEST_ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match=r"no Ray dashboard answers there .*timed out"):
            jobs.list_jobs(url)


def test_the_state_of_a_job_is_read_from_its_events_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "every trial of 'birds' failed:\n  3 × loss is NaN\nmore is in the log"
    progress = [Event("progress", f"{done}/9 trials") for done in (1, 2)]
    events = output_of_a_job(monkeypatch, capsys, *progress, Event("failed", reason))
    log = f"calsweep: no error\n9/9 trials\n{events}calsweep-event: cut o\ncalsweep: it failed"
    assert jobs._said_in(log, failed=True) == jobs.Said("2/9 trials", "calsweep: it failed", reason)
    assert jobs._said_in(log, failed=False).reason == ""
    trace = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'\n"
    assert jobs._said_in(trace, failed=True).reason == "ModuleNotFoundError: No module named 'x'"
    assert jobs._said_in("", failed=True) == jobs.Said("", "", "")


def test_a_followed_log_has_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    event = 'calsweep-event: {"kind": "begun", "text": ""}\n'
    printed = following(monkeypatch, f"a\n{event[:9]}", f"a\n{event}b", f"a\n{event}b\n{event}")
    assert "".join(printed) == "a\nb\n"


def test_a_job_emits_what_its_state_is_read_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SUBMITTED_TO, "http://head:8265")
    with pytest.raises(SystemExit):
        cli._fail("every trial failed:\n  3 × loss is NaN", 1)
    console = Console(quiet=True)
    with Progress(console, live=False) as progress:
        progress.follow(TrialQueue(Plan(make_sweep("birds")), lambda record: None, 10))
    found = jobs._said_in(capsys.readouterr().err, failed=True)
    assert found.reason == "every trial failed:\n  3 × loss is NaN"
    assert found.progress.startswith("0/")


def test_a_taken_name_is_refused_before_a_job_starts(tmp_path: Path) -> None:
    sweep = make_sweep("birds")
    new_store(tmp_path, sweep)
    with pytest.raises(UserError) as refused:
        jobs.submit(sweep, str(tmp_path), "http://127.0.0.1:9", said.append)
    place = f"--address http://127.0.0.1:9 --storage {tmp_path}"
    assert f"`calsweep resume birds {place}` continues it, or choose" in str(refused.value)
    with pytest.raises(UserError, match="no Ray dashboard answers"):
        jobs.submit(sweep, str(tmp_path), "http://127.0.0.1:9", said.append, or_resume=True)


def test_commands_in_the_output_of_a_job_name_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path, make_sweep("birds"))
    monkeypatch.setenv(SUBMITTED_TO, "http://127.0.0.1:8265")
    command = f"`calsweep resume birds --address http://127.0.0.1:8265 --storage {tmp_path}`"
    assert str(interrupted(store)) == f"interrupted; {command} continues it"


def test_a_link_to_a_dashboard_names_its_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert client.token_hint() == ""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert client.token_hint() == f" (asks for the token in {Path.home()}/.ray/auth_token)"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/etc/token")
    assert client.token_hint() == " (asks for the token in /etc/token)"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert client.token_hint() == " (asks for the token in RAY_AUTH_TOKEN)"
