"""Files that are sent to a cluster: none that git ignores, also if git fails."""

import json
import os
import re
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest
import ray

from sweeps.cluster.ray_internals import JOB_CONFIGURATION
from sweeps.errors import UserError
from sweeps.jobs import jobs, shipping
from sweeps.jobs.shipping import keep_what_was_sent, stage


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    allowed = ("-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *allowed, "-C", str(folder), *arguments], check=True)


def repository(folder: Path) -> Path:
    """A repository with a module to send, and one that git ignores."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("secrets_*.py\n")
    (folder / "model.py").touch()
    (folder / "secrets_own.py").touch()
    return folder


def sent(source: Path, target: Path) -> tuple[str, ...]:
    target.mkdir(exist_ok=True)
    return stage(source, target, None).modules


def named(source: Path, target: Path) -> str:
    target.mkdir()
    return str(stage(source, target, None))


def test_what_is_sent_is_named_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside a repository, these are all modules of the folder, scratch files too."""
    folder = repository(tmp_path / "work")
    version = re.escape(distribution("calsweep").version)
    within = named(folder, tmp_path / "first")
    assert re.fullmatch(
        f"the sweep, calsweep {version}, .* 1 Python modules, .*nothing else", within
    )
    shutil.rmtree(folder / ".git")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(jobs, "ask", lambda *_: {"ray_version": ray.__version__})
    monkeypatch.setattr(jobs, "list_jobs", lambda _: [])
    said: list[str] = []

    def note(text: str) -> None:
        said.append(text)
        raise KeyboardInterrupt  # nothing is sent, as there is no cluster

    with pytest.raises(KeyboardInterrupt):
        jobs.submit_resume("birds", "s3://bucket/x", "http://127.0.0.1:9", (), note)
    assert re.search(
        r"sending .* 2 Python modules \(all, as it is in no git repository\), 0 KB: model.py, "
        "secrets_own.py; nothing else",
        said[0],
    )


def test_a_repository_whose_owner_is_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path / "work")
    assert sent(folder, tmp_path / "before") == ("model.py",)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UserError, match="dubious ownership") as refused:
        sent(folder, tmp_path / "after")
    assert f"safe.directory {folder}" in str(refused.value)
    assert list((tmp_path / "after").iterdir()) == []


def test_a_repository_without_git_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(tmp_path / "work")
    (folder / "inner").mkdir()
    (folder / "inner/module.py").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="git is not installed"):
        sent(folder / "inner", tmp_path / "to")


def test_a_damaged_repository_is_refused(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    shutil.rmtree(folder / ".git")
    (folder / ".git").write_text("gitdir: ../nowhere\n")
    with pytest.raises(UserError, match="git does not say which files it ignores"):
        sent(folder, tmp_path / "to")


def test_where_there_is_no_repository_all_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "model.py").touch()
    assert sent(folder, tmp_path / "with_git") == ("model.py",)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sent(folder, tmp_path / "without") == ("model.py",)


def test_each_repository_is_asked_for_its_own_files(tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    git(library, "add", "--all")
    git(library, "commit", "--quiet", "--message", "all")
    work = repository(tmp_path / "work")
    git(work, "submodule", "--quiet", "add", str(library), "vendor/library")
    (work / "vendor/library/secrets_here.py").touch()
    nested = repository(work / "nested")
    (nested / ".git/info/exclude").write_text("draft.py\n")
    (nested / "draft.py").touch()
    repository(work / "secrets_all.py")  # a whole repository that the outer one ignores
    assert sent(work, tmp_path / "to") == (
        "model.py",
        "nested/model.py",
        "vendor/library/model.py",
    )


@pytest.mark.parametrize(
    ("runtime_env", "copied"),
    [({}, False), (None, False), ({"working_dir": "gcs://_ray_pkg_1.zip"}, True)],
)
def test_a_driver_copies_only_what_was_sent_with_its_job(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runtime_env: dict[str, str] | None,
    copied: bool,
) -> None:
    (tmp_path / "image/.venv").mkdir(parents=True)
    (tmp_path / "image/.venv/large").touch()
    monkeypatch.chdir(tmp_path / "image")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv(JOB_CONFIGURATION, json.dumps({"runtime_env": runtime_env, "metadata": {}}))
    begun: list[Path] = []
    monkeypatch.setattr(os, "execv", lambda *_: begun.append(Path.cwd()))
    keep_what_was_sent()
    copies = [path for path in tmp_path.iterdir() if path.name.startswith(shipping._COPY)]
    assert begun == copies
    assert len(copies) == copied
