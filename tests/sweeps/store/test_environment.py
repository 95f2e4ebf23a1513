"""The recorded environment of a sweep."""

import subprocess
from pathlib import Path

import pytest

from sweeps.store.environment import describe_environment


def test_the_commit_of_the_working_folder_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert describe_environment()["commit"] is None
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    (tmp_path / "sweep.yaml").write_text("name: a")
    for words in (["init", "-q"], ["add", "."], [*names, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert describe_environment()["commit"] == head.stdout.strip()
    (tmp_path / "sweep.yaml").write_text("name: b")
    assert describe_environment()["commit"] == f"{head.stdout.strip()}-dirty"
    monkeypatch.setenv("PATH", "")
    assert describe_environment()["commit"] is None
