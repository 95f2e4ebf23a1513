"""The files that are sent to a cluster with a sweep: its file, your own modules, and calsweep.

No data, settings, keys or other files are sent. calsweep's own code, a few hundred KB, is sent so
that the nodes run the version that checked the sweep.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from sweeps.cluster.ray_internals import JOB_CONFIGURATION
from sweeps.errors import UserError
from sweeps.sweep_file.loading import dump_sweep
from sweeps.sweep_file.schema import SweepFile
from trainables.plugins.arguments import few, first_line
from trainables.runtime.temporary import temporary_folder

SWEEP_FILE = "calsweep-sweep.yaml"
_LARGEST_TOTAL = 10 * 2**20  # bytes
_CALSWEEP = Path(__file__).resolve().parents[2]
_COPY = "calsweep-sent-"
_PACKAGES = ("calsweep", "search_spaces", "sweeps", "trainables")


@dataclass(frozen=True)
class Shipment:
    """The files to send: relative paths of the user's modules, their size in bytes, the version.

    ``chosen_by_git`` is whether git says which modules of the folder to leave out.
    """

    modules: tuple[str, ...]
    size: int
    version: str
    chosen_by_git: bool

    def __str__(self) -> str:
        count, kilobytes = len(self.modules), math.ceil(self.size / 1000)
        named = f", {kilobytes} KB: {few(self.modules, 8)}" if count else ""
        every = "" if self.chosen_by_git or not count else " (all, as it is in no git repository)"
        return (
            f"the sweep, calsweep {self.version}, and of this folder {count} Python "
            f"modules{every}{named}; nothing else"
        )


def stage(source: Path, target: Path, sweep: SweepFile | None) -> Shipment:
    """Copy the files to send into an empty folder.

    These are the modules of the user's folder, except for hidden ones, those that git ignores and
    installed packages; and the resolved file of the sweep, unless the cluster already has it.

    Raises:
        UserError: The modules are too large, cannot be read, hide calsweep's own, git ignores one
            that the sweep names, or git does not say what it ignores.
    """
    source = source.resolve()
    paths = [path.relative_to(source) for path in _modules(source)]
    ignored = _ignored_by_git(source, paths)
    names = [path for path in paths if path not in ignored]
    if sweep is not None:
        _check_sent(sweep.named, ignored)
    _check_names(source, names)
    size = _copy(source, target, names)
    _copy_calsweep(target)
    if sweep is not None:
        (target / SWEEP_FILE).write_text(dump_sweep(sweep), encoding="utf-8")
    version = distribution("calsweep").version
    return Shipment(tuple(map(str, names)), size, version, _is_in_repository(source))


def keep_what_was_sent() -> None:
    """Restart the driver of a job in a copy of the folder that was sent.

    While the driver connects, Ray may delete and recreate that folder (observed with a head without
    CPUs), and imports from a deleted folder fail. A job without sent files, such as a KubeRay job
    in a folder of its image, stays where it is.
    """
    config = json.loads(os.environ.get(JOB_CONFIGURATION, "{}"))
    if "working_dir" not in (config.get("runtime_env") or {}):
        return
    if Path.cwd().name.startswith(_COPY):
        atexit.register(shutil.rmtree, Path.cwd(), ignore_errors=True)
        return
    copy = temporary_folder(_COPY)
    shutil.copytree(".", copy, dirs_exist_ok=True)
    os.chdir(copy)
    # With -m the working folder comes first on the path, before the folder that was sent.
    os.execv(sys.executable, [sys.executable, "-m", "sweeps.cli", *sys.argv[1:]])


def _modules(source: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(source):
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".")
            and name not in ("node_modules", "site-packages", "__pycache__")
            and not (Path(folder) / name / "pyvenv.cfg").exists()
            and Path(folder, name) not in [_CALSWEEP / package for package in _PACKAGES]
        )
        for name in sorted(files):
            path = Path(folder, name)
            if name.endswith(".py") and not name.startswith(".") and path.is_file():
                yield path


def _ignored_by_git(root: Path, paths: list[Path]) -> set[Path]:
    """The paths that git ignores; none without a repository. Submodules are asked as well."""
    below: dict[Path, list[Path]] = {}
    asked: list[Path] = []
    for path in paths:
        inner = _repository_of(root, path)
        if inner is None:
            asked.append(path)
        else:
            below.setdefault(inner, []).append(path)
    ignored = _check_ignore(root, [*asked, *below])
    for inner, inside in below.items():
        if inner in ignored:
            ignored |= set(inside)
        else:
            own = _ignored_by_git(root / inner, [path.relative_to(inner) for path in inside])
            ignored |= {inner / path for path in own}
    return ignored


def _repository_of(root: Path, path: Path) -> Path | None:
    """The outermost nested repository below ``root`` that contains the path, or None."""
    folders = reversed(path.parents[:-1])  # the last parent is the root itself
    return next((folder for folder in folders if (root / folder / ".git").exists()), None)


def _is_in_repository(root: Path) -> bool:
    return any((folder / ".git").exists() for folder in (root, *root.parents))


def _check_ignore(root: Path, paths: list[Path]) -> set[Path]:
    if not paths:
        return set()
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "check-ignore", "--stdin", "-z"],
            input="\0".join(map(str, paths)),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        refusal = "git is not installed"
    else:
        if answer.returncode in (0, 1):  # 0: some paths are ignored, 1: none is
            return {Path(name) for name in answer.stdout.split("\0") if name}
        refusal = first_line(answer.stderr) or f"it ended with {answer.returncode}"
    if not _is_in_repository(root):
        return set()
    raise UserError(
        f"{root}: git does not say which files it ignores ({refusal}), so nothing is sent: some "
        f"may be secret. Make `git -C {root} status` work (if another user owns the folder: "
        f"`git config --global --add safe.directory {root}`), or submit from a folder outside "
        "the repository that contains only the modules that the sweep needs"
    )


def _check_sent(named: Collection[str], ignored: set[Path]) -> None:
    """Check that git ignores no module that the sweep names."""
    for name in named:
        module = Path(*name.partition(":")[0].split("."))
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if ":" in name and path in ignored:
                raise UserError(
                    f"{name}: {path} is not sent, as git ignores it; take it out of .gitignore, or "
                    "install it on the cluster's nodes and submit from another folder"
                )


def _check_names(source: Path, names: list[Path]) -> None:
    for path in names:
        top = path.parts[0].removesuffix(".py")
        if top in _PACKAGES:
            raise UserError(
                f"{source / path} hides calsweep's package {top!r}; rename "
                f"{'that folder' if len(path.parts) > 1 else 'it'}, or submit from another folder"
            )


def _copy(source: Path, target: Path, names: list[Path]) -> int:
    size = 0
    for name in names:
        try:
            size += (source / name).stat().st_size
            if size > _LARGEST_TOTAL:
                raise UserError(
                    f"the Python modules below {source} are more than "
                    f"{_LARGEST_TOTAL // 2**20} MiB; submit from a folder that holds only those "
                    "that the sweep needs"
                )
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / name)
        except OSError as error:
            raise UserError(f"{source / name} cannot be sent: {error.strerror}") from None
    return size


def _copy_calsweep(target: Path) -> None:
    for package in _PACKAGES:
        shutil.copytree(
            _CALSWEEP / package, target / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    installed = distribution("calsweep")
    about = target / f"calsweep-{installed.version}.dist-info"  # contains the version
    about.mkdir()
    (about / "METADATA").write_text(installed.read_text("METADATA") or "", encoding="utf-8")
