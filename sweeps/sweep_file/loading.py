"""Reads a sweep file: YAML, overrides and checks. One message lists every fault with its line."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from sweeps.errors import UserError
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections.fields import NAME_ALLOWED
from sweeps.sweep_file.sections.search import CHANGEABLE, SelectionSection
from sweeps.sweep_file.upgrading import KEYS, upgraded
from sweeps.sweep_file.yaml_text import LONGEST_SHOWN, Location, YamlTextError, read_yaml, shortened
from trainables.contract.setting import BASELINE_LOSS, loss_name
from trainables.plugins.arguments import did_you_mean
from trainables.plugins.components import installed

READY_MADE = Path(__file__).parent / "ready_made"
SCHEMA = READY_MADE.with_name("sweep.schema.json")
FIRST_LINE = f"# yaml-language-server: $schema={SCHEMA.as_uri()}\n"
"""Of every sweep file that is written: editors on this machine complete and check it."""
_LARGEST_FILE = 2**20  # bytes
_OF_DATA = (
    *(".csv", ".tsv", ".gz", ".parquet", ".pq", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc"),
    *(".npz", ".npy"),
)
_NUMBER = re.compile(r"\s*([\d_]*\.?[\d_]+([eE][+-]?\d+)?|null)\s*")


def ready_made_sweeps() -> list[str]:
    return sorted(path.stem for path in READY_MADE.glob("*.yaml"))


def recipes() -> list[str]:
    """The names of the experiments of papers, also of installed packages."""
    return sorted(_recipes())


def _recipes() -> dict[str, Path]:
    """The files of recipes by name; a package registers the folder of its file."""
    found = {
        f"recipes/{name}": Path(str(files(folder))) / f"{name}.yaml"
        for name, folder in installed("calsweep.recipes").items()
    }
    ours = {f"recipes/{path.stem}": path for path in READY_MADE.glob("recipes/*.yaml")}
    return {**found, **ours}


def describe_recipe(name: str) -> str:
    """The source of a recipe: the third line of its file."""
    lines = _recipes()[name].read_text(encoding="utf-8").splitlines()
    return lines[2].removeprefix("# ")


def load_sweep(
    source: str, overrides: Sequence[str] | Mapping[str, Any] = (), name: str | None = None
) -> SweepFile:
    """Read the sweep file at a path, or the ready-made one of that name.

    Args:
        source: Path of a YAML file, or a name of :func:`ready_made_sweeps` or :func:`recipes`.
        overrides: ``key=value`` texts with a dotted key and a YAML value; or values by dotted key.
        name: Replaces the name in the file.

    Raises:
        UserError: Lists every fault with its line, its key, the value and what is allowed.
    """
    path = _find(source)
    tree, lines = _read(_read_text(path), str(path))
    origins = {location: f"{path}, line {line}" for location, line in lines.items()}
    return override_sweep(tree, overrides, name, origins, str(path))


def override_sweep(
    tree: dict[str, object],
    overrides: Sequence[str] | Mapping[str, Any] = (),
    name: str | None = None,
    origins: Mapping[Location, str] | None = None,
    default_origin: str = "sweep",
) -> SweepFile:
    """Check a sweep given as plain Python values, after replacing some of them.

    `tree`, which is changed, and origins are as for :func:`parse_sweep`; the rest and the errors as
    for :func:`load_sweep`.
    """
    found = dict(origins or {})
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            origin = f"set {key!r}"
            found = _moved(found, _replace(tree, key.split("."), value, origin), origin)
    else:
        for override in overrides:
            found = _moved(found, _apply(tree, override), f"set {override}")
    if name is not None:
        tree["name"] = name
        found[("name",)] = "name"
    return parse_sweep(tree, found, default_origin)


def with_comparison(sweep: SweepFile, losses: str | None, seeds: int | None) -> SweepFile:
    """A sweep that compares the best settings of some losses in pairs.

    `losses` are names, separated by commas, to which cross-entropy is added; None leaves the sweep
    unchanged. `seeds` is the number of fresh seeds of each; None for the sweep's, or the default
    number if that is ``auto``.

    Raises:
        UserError: A loss is unknown, or there is no loss besides cross-entropy.
    """
    values: dict[str, object] = {}
    if losses is not None:
        named = [loss_name(name.strip()) for name in losses.split(",") if name.strip()]
        if not (wanted := [name for name in dict.fromkeys(named) if name != BASELINE_LOSS]):
            raise UserError(
                f"found {losses!r}; allowed: one loss or more besides {BASELINE_LOSS}, separated "
                "by commas, such as focal,dual_focal",
                "compare",
            )
        given = {each.name: each.model_dump(mode="json") for each in sweep.losses}
        values["losses"] = [given.get(name, name) for name in wanted]
        values["selection.per_loss"] = True
        values["selection.finalists"] = len(wanted)
        if seeds is None and sweep.selection.seeds == "auto":  # it adds seeds to one loss only
            values["selection.seeds"] = SelectionSection().seeds
    if seeds is not None:
        values["selection.seeds"] = seeds
        if losses is None and sweep.selection.finalists == 0:  # a file that trains one setting
            values["selection.finalists"] = 1
    return override_sweep(sweep.model_dump(mode="json"), values) if values else sweep


def with_other_budgets(sweep: SweepFile, overrides: Sequence[str] | Mapping[str, Any]) -> SweepFile:
    """A started sweep with changed budgets, ``search.trials`` and so on, or ``trainable.load``.

    Raises UserError if another key is changed.
    """
    if not overrides:
        return sweep
    changed = override_sweep(sweep.model_dump(mode="json"), overrides)
    budgets = {key: getattr(changed.search, key) for key in CHANGEABLE}
    search = sweep.search.model_copy(update=budgets)
    loop = sweep.trainable
    if loop is not None and changed.trainable is not None:
        loop = loop.model_copy(update={"load": changed.trainable.load})
    if changed != sweep.model_copy(update={"search": search, "trainable": loop}):
        raise UserError(
            f"of sweep {sweep.name!r}, which was started, only budgets can be changed; allowed: "
            + ", ".join([*(f"search.{key}" for key in CHANGEABLE), "trainable.load"])
        )
    return changed


def budgets_asked(asked: SweepFile, begun: SweepFile, given: SweepFile) -> dict[str, object]:
    """The budgets that differ in the sweep file of a begun sweep, for :func:`with_other_budgets`.

    Args:
        asked: The present sweep file.
        begun: The stored one, in which data and machine have decided what was left open.
        given: The one that was given before.

    Raises:
        UserError: Another key differs.
    """
    found = _changed(asked, begun, given)
    budgets = {key: found.pop(key) for key in map("search.{}".format, CHANGEABLE) if key in found}
    if found:
        raise UserError(
            f"name = {begun.name!r}: a sweep of this name exists, and was started with another "
            f"{', '.join(found)}; put the sweep file back, or choose another name"
        )
    return budgets


def _changed(asked: SweepFile, begun: SweepFile, given: SweepFile) -> dict[str, object]:
    """What was changed or removed since the sweep file was given, unless it is as stored."""
    now, before, stored = (
        _values(sweep.model_dump(mode="json")) for sweep in (asked, given, begun)
    )
    return {
        key: now.get(key)
        for key in now | before
        if now.get(key) != before.get(key) and now.get(key) != stored.get(key)
    }


def _values(tree: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """The values in nested sections by dotted key."""
    values: dict[str, object] = {}
    for key, value in tree.items():
        inner = isinstance(value, dict) and value
        values |= _values(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return values


def check_budgets(overrides: Sequence[str]) -> None:
    """Check that only budgets change, to numbers, without reading the sweep; UserError if not.

    The message does not show refused values, which may be passwords.
    """
    for override in overrides:
        key, _, value = override.partition("=")
        if key not in [f"search.{name}" for name in CHANGEABLE] or not _NUMBER.fullmatch(value):
            raise UserError(
                "not allowed: of a sweep that was started, only budgets can be changed; "
                "allowed: " + ", ".join(f"search.{name}=NUMBER" for name in CHANGEABLE),
                "set",
                f"{shortened(key)}=...",
            )


def read_sweep(text: str, origin: str) -> SweepFile:
    """The sweep in the text of a sweep file; errors as for :func:`load_sweep`."""
    tree, lines = _read(text, origin)
    origins = {location: f"{origin}, line {line}" for location, line in lines.items()}
    return parse_sweep(tree, origins, origin)


def read_resolved(text: str, origin: str) -> SweepFile:
    """The sweep in the text of :func:`dump_sweep`, of any version; UserError if it is damaged."""
    tree = _read(text, origin)[0]
    if "tracking" not in tree:  # the last section; missing sections would get defaults
        raise UserError(f"{origin}: the sweep file is cut short")
    return parse_sweep(upgraded(tree), default_origin=origin)


def parse_sweep(
    tree: dict[str, object],
    origins: Mapping[Location, str] | None = None,
    default_origin: str = "sweep",
) -> SweepFile:
    """Check a sweep given as plain Python values; errors as for :func:`load_sweep`.

    `origins` has the location of each key, for messages; other keys have the default.
    """
    origins = origins or {}
    try:
        return SweepFile.model_validate(tree)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # A fault inside a list also makes the list too short; only the cause is reported.
        inner = {tuple(f["loc"][:1]) for f in faults if len(f["loc"]) > 1}
        messages = [
            f"{_origin(f['loc'], origins, default_origin)}: {_describe(f)}"
            for f in faults
            if not (f["type"] == "too_short" and tuple(f["loc"]) in inner)
        ]
        raise UserError("\n".join(messages)) from None


def dump_sweep(sweep: SweepFile) -> str:
    """The sweep as a complete sweep file with every value, including defaults."""
    return FIRST_LINE + to_yaml(sweep.model_dump(mode="json"))


def to_yaml(value: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(value, stream)
    return stream.getvalue()


def _find(source: str) -> Path:
    path = Path(os.path.expanduser(source))
    if (is_folder := os.path.isdir(path)) or path.suffix.lower() in _OF_DATA:
        found = "folder" if is_folder else "file of data"
        raise UserError(
            f"{source}: is a {found}, expected a sweep file; if these are the data, "
            f"`calsweep init --data {source}` writes one"
        )
    if os.path.exists(path):  # unlike Path.exists, it accepts names that are too long
        return path
    names = ready_made_sweeps()
    if source in names:
        return READY_MADE / f"{source}.yaml"
    if source in recipes():
        return _recipes()[source]
    raise UserError(
        f"{source}: no such file, nor a ready-made sweep of that name"
        f"{did_you_mean(source, [*names, *recipes()])}; ready-made are: {', '.join(names)}, and "
        "those that `calsweep recipes` lists"
    )


def _read_text(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise UserError(
                f"{path}: more than {_LARGEST_FILE // 2**20} MiB; a sweep file has a few lines"
            )
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file; a sweep file is YAML in UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty; a sweep file needs name, dataset, losses")
    return text


def _read(text: str, origin: str) -> tuple[dict[str, object], dict[Location, int]]:
    tree, lines = _parse(text, origin)
    if not isinstance(tree, dict):
        found = "a list" if isinstance(tree, list) else shortened(tree)
        raise UserError(f"{origin}: a sweep file is a mapping of keys to values, found {found}")
    return tree, lines


def _parse(text: str, origin: str) -> tuple[Any, dict[Location, int]]:
    try:
        return read_yaml(text)
    except YamlTextError as error:
        line = f", line {error.line}" if error.line is not None else ""
        raise UserError(f"{origin}{line}: {error}") from None


def _apply(tree: dict[str, object], override: str) -> Location:
    """Set one value in the tree; returns its location."""
    dotted, separator, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not separator or not all(keys):
        raise UserError("write KEY=VALUE, such as training.epochs=5", "set", override)
    value, _ = _parse(text, f"set {override}")
    return _replace(tree, keys, value, f"set {override}")


def _moved(origins: Mapping[Location, str], replaced: Location, origin: str) -> dict[Location, str]:
    """The locations after a value was replaced, with all that is inside it."""
    kept = {k: v for k, v in origins.items() if k[: len(replaced)] != replaced}
    return kept | {replaced: origin}


def _replace(tree: dict[str, object], keys: list[str], value: Any, origin: str) -> Location:
    node = tree
    for depth, key in enumerate(keys[:-1]):
        child = node.setdefault(key, {})
        if isinstance(child, str):
            child = {"name": child}
        if not isinstance(child, dict):
            raise UserError(f"{origin}: {'.'.join(keys[: depth + 1])} has no keys inside")
        child = node[key] = dict(child)  # the caller's mapping is not changed
        node = child
    node[keys[-1]] = value
    return tuple(keys)


def _origin(location: Location, origins: Mapping[Location, str], default: str) -> str:
    for length in range(len(location), 0, -1):
        if location[:length] in origins:
            return origins[location[:length]]
    return default


def _describe(fault: Any) -> str:
    """One fault as "key = value: what is allowed"."""
    location, context = fault["loc"], fault.get("ctx", {})
    key, found = _dotted(location), shortened(fault["input"])
    refused = f"{key} = {found} is not allowed"
    match fault["type"]:
        case "extra_forbidden":
            return _describe_unknown(key, location, fault["input"])
        case "missing":
            return f"{key} is missing"
        case "value_error":
            return f"{key}: {context['error']}" if key else str(context["error"])
        case "too_short":
            return f"{key} is empty; give at least one"
        case "too_long":
            return f"{key} is too long; allowed: at most {context['max_length']} entries"
        case "model_type" | "model_attributes_type":
            keys = ", ".join(_section_at(location).model_fields)
            return f"{refused}; expected a mapping, with keys: {keys}"
        case "literal_error":
            names = re.findall(r"'([^']*)'", context["expected"])
            refused += did_you_mean(str(fault["input"]), names)
            allowed = context["expected"]
        case "string_pattern_mismatch":
            allowed = NAME_ALLOWED
        case "tuple_type":
            allowed = "a list"
        case _:
            said = fault["msg"].removeprefix("Input should be ")
            allowed = said.removeprefix("String should have ")
    return f"{refused}; allowed: {allowed}"


def _describe_unknown(key: str, location: Sequence[str | int], value: object) -> str:
    if key in KEYS:
        use = "leave it out" if KEYS[key] is None else f"its name is now {KEYS[key]}"
        return f"{key} no longer exists: {use}"
    known = list(_section_at(location[:-1]).model_fields)
    where = f" in {_dotted(location[:-1])}" if location[:-1] else ""
    hint = did_you_mean(str(location[-1]), known)
    if location[0] == "losses" and len(location) == 3 and not hint:
        hint = f" (did you mean hyperparameters: {{{location[-1]}: {shortened(value)}}}?)"
    return f"unknown key {shortened(location[-1])}{where}{hint}; allowed: {', '.join(known)}"


def _dotted(location: Sequence[str | int]) -> str:
    """A location as a dotted key; parts that are not plain text are quoted."""
    parts = [str(part) for part in location]
    return ".".join(
        p if p.isprintable() and len(p) <= LONGEST_SHOWN else shortened(p) for p in parts
    )


def _section_at(location: Sequence[str | int]) -> type[BaseModel]:
    section: type[BaseModel] = SweepFile
    for part in location:
        if isinstance(part, int) or part not in section.model_fields:
            continue
        annotation = section.model_fields[part].annotation
        for candidate in (annotation, *getattr(annotation, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                section = candidate
    return section
