"""The identity of a sweep: its data, environment and custom code at the start.

It is compared when the sweep continues. Changed data are refused: trials on other data cannot be
compared, and an interrupted trial would train on its former validation samples. Other versions or
other code may be intended, so they are only reported.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sweeps.errors import UserError
from sweeps.search.record import known_fields
from sweeps.store.environment import describe_environment, versions, versions_in
from sweeps.store.storage import DamagedFileError, load_json
from trainables.files.storage import Folder, digest_of

if TYPE_CHECKING:
    from trainables.data.core.base import Data

T = TypeVar("T")
_NAME = "identity.json"
_SPLITS = ("train", "validation", "test")  # unknown, because a custom loop reads the data
_ENVIRONMENT = "environment.json"
_INSTALLED = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")
)


@dataclass(frozen=True)
class Identity:
    """The data and code that all trials of a sweep share.

    Attributes:
        samples: Number of samples in each split, for messages.
        num_classes: Number of classes, for messages.
        modules: A digest of each file of custom code.
        classes: Class names.
        labels: Label names of the decisions on a sample; empty if there is one decision.
        test: Digest of the test split alone; None if unknown.
    """

    digest: str
    samples: dict[str, int]
    num_classes: int
    modules: dict[str, str]
    classes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    test: str | None = None

    def shares_test_split(self, other: Identity) -> bool:
        """Whether both have the same test split, as far as known."""
        return self.digest == other.digest or (self.test is not None and self.test == other.test)


def identify(named: Iterable[str], dataset: Data) -> Identity:
    """The identity of a sweep on these data with the present code; `named` are its components."""
    return Identity(
        digest=dataset.digest(),
        samples={name: len(getattr(dataset, name)) for name in _SPLITS if hasattr(dataset, name)},
        num_classes=dataset.num_classes,
        modules=own_modules(named),
        classes=dataset.classes,
        labels=dataset.task.names,
        test=dataset.test_digest(),
    )


def identity_files(identity: Identity) -> dict[str, bytes]:
    """The files that store the identity and the environment: names and contents."""
    return {
        _NAME: json.dumps(asdict(identity), indent=1).encode(),
        _ENVIRONMENT: json.dumps(describe_environment(), indent=1).encode(),
    }


def read_identity(folder: Folder) -> Identity | None:
    """The identity stored in a sweep's folder; None if it was deleted, because it was damaged."""

    def identity(values: Any) -> Identity:
        known = known_fields(Identity, values)
        names = {key: tuple(known.get(key, ())) for key in ("classes", "labels")}
        return Identity(**known | names)

    return _read(folder, _NAME, identity)


def read_environment(folder: Folder) -> dict[str, Any] | None:
    """The environment in which a sweep was started; None as for :func:`read_identity`."""

    def environment(values: Any) -> dict[str, Any]:
        return {**values, "python": values["python"]}

    return _read(folder, _ENVIRONMENT, environment)


def changes_since_start(name: str, folder: Folder, identity: Identity) -> list[str]:
    """How code and versions differ from those with which a sweep was started, a sentence each.

    A sweep without an identity continues with the present data. If the environment
    differs, it is added to the one in which the sweep was started.

    Raises:
        UserError: The data have changed since the sweep was started.
    """
    before, environment = read_identity(folder), read_environment(folder)
    if before is None or environment is None:
        for file, data in identity_files(identity).items():
            folder.write(file, data)
        return []
    present = versions()
    other = changes(versions_in(environment), present)
    found = [*other, *changes(before.modules, identity.modules)]
    if before.digest != identity.digest:
        besides = f" Since then {', '.join(found)}." if found else ""
        raise UserError(
            f"the data are not those that sweep {name!r} was started with: expected "
            f"{_data_in_words(before)}; found {_data_in_words(identity)}.{besides} Its trials "
            "could not be compared with new ones, and cut-off ones would train on what was "
            "validation data: put the data back as they were, or begin a new sweep with another "
            "name"
        )
    resumed = environment.get("resumed", [])
    if other and present not in map(versions_in, resumed):
        resumed = [*resumed, describe_environment()]
        data = json.dumps({**environment, "resumed": resumed}, indent=1).encode()
        folder.write(_ENVIRONMENT, data)
    return [
        f"since sweep {name!r} was started {change}; this may change the results of trials"
        for change in found
    ]


def _read(folder: Folder, name: str, convert: Callable[[Any], T]) -> T | None:
    try:
        return load_json(folder, name, convert)
    except DamagedFileError as error:
        raise UserError(
            f"{error}: it is unknown what the sweep was started with; delete it to continue "
            "without knowing"
        ) from None


def _data_in_words(identity: Identity) -> str:
    samples = ", ".join(f"{count} {split}" for split, count in identity.samples.items())
    return f"{samples} samples, {identity.num_classes} classes, digest {identity.digest}"


def changes(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    """How files or versions, by name, differ, in words."""
    lines = []
    for name in sorted({*before, *now}):
        was, is_now = before.get(name), now.get(name)
        if was == is_now:
            continue
        if name.endswith(".py"):
            how = "was added" if was is None else "is gone" if is_now is None else "has changed"
            lines.append(f"{name} {how}")
        else:
            lines.append(f"{name} went from {was or 'none'} to {is_now or 'none'}")
    return lines


def own_modules(named: Iterable[str]) -> dict[str, str]:
    """A digest of each file of modules ``module:Name`` and of those that they import.

    Installed packages are omitted, because they have versions.
    """
    waiting = [name.partition(":")[0].partition(".")[0] for name in named if ":" in name]
    seen: set[str] = set()
    digests: dict[str, str] = {}
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for file, key in _files(package):
            try:
                data = file.read_bytes()
            except OSError:  # whatever needs it will report the error
                continue
            digests[key] = digest_of(data)
            waiting += _imports(data)
    return digests


def _files(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a custom package or module, each with a name for it."""
    spec = None
    with suppress(ImportError, ValueError):  # ValueError: a module without a spec, as __main__
        spec = importlib.util.find_spec(package)
    if spec is None or package in ("calsweep", "search_spaces", "sweeps", "trainables"):
        return
    for place in map(Path, spec.submodule_search_locations or [str(spec.origin)]):
        root = place.resolve()
        if _is_installed(root):
            continue
        for file in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            if file.suffix == ".py":
                yield file, file.relative_to(root.parent).as_posix()


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in _INSTALLED) or bool(
        {"site-packages", "dist-packages"} & set(path.parts)
    )


def _imports(source: bytes) -> set[str]:
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return set()
    imports = (node.names for node in nodes if isinstance(node, ast.Import))
    names = [alias.name for aliases in imports for alias in aliases]
    absolute = (n for n in nodes if isinstance(n, ast.ImportFrom) and n.level == 0)
    names += [str(node.module) for node in absolute]
    return {name.partition(".")[0] for name in names}
