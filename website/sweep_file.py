"""The sweep file's page, generated from the schema, so that it agrees with the loader."""

from __future__ import annotations

import json
from typing import Any, Final

from sweeps.sweep_file.loading import SCHEMA

_BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}
_TYPES: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
}


def sections() -> str:
    """A heading and a table of keys for each section."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    definitions = schema["$defs"]
    headings: dict[str, str] = {}  # section → its first heading
    for key, given in schema["properties"].items():
        for name in _references(given):
            headings.setdefault(name, key)
    for name, key in list(headings.items()):
        for inner, given in definitions[name]["properties"].items():
            for below in _references(given):
                headings.setdefault(below, f"{key}.{inner}")
    order = list(schema["properties"])
    listed = sorted(headings.items(), key=lambda item: order.index(item[1].partition(".")[0]))
    return "\n\n".join(
        [
            _section("The file", schema, headings),
            *(_section(f"`{key}`", definitions[name], headings) for name, key in listed),
        ]
    )


def _section(heading: str, section: dict[str, Any], headings: dict[str, str]) -> str:
    lines = [
        f"## {heading}\n",
        section["description"].replace("\n", " ") + "\n",
        "| key | what it is | allowed | default |",
        "| --- | --- | --- | --- |",
    ]
    required = section.get("required", ())
    for key, given in section["properties"].items():
        default = "required" if key in required else _default(given)
        said = given["description"].replace("|", "\\|")
        lines.append(f"| `{key}` | {said} | {_allowed(given, headings)} | {default} |")
    if section.get("additionalProperties") is True:
        lines.append("| … | the options of the named component | | |")
    return "\n".join(lines)


def _allowed(given: dict[str, Any], headings: dict[str, str]) -> str:
    if "anyOf" in given:
        kinds = [_allowed(each, headings) for each in given["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    if "$ref" in given:
        (name,) = _references(given)
        return f"[a section](#{headings[name].replace('.', '')})"
    if "const" in given:
        return f"`{given['const']}`"
    if "enum" in given:
        return ", ".join(f"`{each}`" for each in given["enum"])
    if given.get("type") == "array":
        return f"a list: {_allowed(given['items'], headings)}"
    if given.get("type") == "object":
        inner = given["additionalProperties"]
        of = _allowed(inner, headings) if _references(inner) else "a value"
        return f"{of} for each name"
    bounds = [text.format(_number(given[b])) for b, text in _BOUNDS.items() if b in given]
    return ", ".join([_TYPES[given["type"]], *bounds])


def _default(given: dict[str, Any]) -> str:
    default = given.get("default")
    if isinstance(default, dict):
        return "as below" if default else "none"
    if default is None or default == []:
        return "–"
    return f"`{json.dumps(default)}`".replace('"', "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _references(tree: Any) -> list[str]:
    """The sections that a key holds."""
    if isinstance(tree, list):
        return [name for item in tree for name in _references(item)]
    if not isinstance(tree, dict):
        return []
    own = [tree["$ref"].rpartition("/")[2]] if "$ref" in tree else []
    return own + [name for value in tree.values() for name in _references(value)]
