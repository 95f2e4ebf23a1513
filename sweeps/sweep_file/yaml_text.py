"""YAML text as plain Python values with their lines: no tags, no objects, no cycles.

The YAML library only composes the text into nodes; this module creates the values. So a file cannot
name a type to construct.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sweeps.messages.redaction import redact
from trainables.plugins.arguments import first_line

Location: TypeAlias = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_PLAIN = {f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float", "str")}
# Unquoted, these would be a date and YAML's default key; here they are text.
_TEXT = {f"{_TAG}{kind}" for kind in ("timestamp", "value")}
_MERGE = f"{_TAG}merge"
_MOST_VALUES = 20_000  # aliases within aliases multiply
LARGEST_INTEGER = 2**63 - 1


LONGEST_SHOWN = 60  # characters of a value in a message


def shortened(value: object) -> str:
    """A value for a message, shortened and without credentials."""
    text = redact(repr(value))  # first, because a shortened address may not be recognised
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


class YamlTextError(Exception):
    """The text is not valid YAML, or uses features that are not allowed; `line` counts from 1."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


def read_yaml(text: str) -> tuple[Any, dict[Location, int]]:
    """The values in a YAML text, and the line (from 1) of each key and list item.

    Values are dicts (with text as keys), lists, text, numbers, booleans and None. Anchors, aliases
    and merge keys are resolved. Only tags of plain values are allowed, and an unquoted date is
    text.

    Raises:
        YamlTextError: The text is not valid; has the line.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # an anchor may be redefined
    try:
        node = yaml.compose(text)
        builder = _Builder(yaml)
        value = None if node is None else builder.build(node, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else None
        raise YamlTextError(line, f"not valid YAML: {error.problem}") from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise YamlTextError(None, f"not valid YAML: {first_line(error)}") from None
    return value, builder.lines


class _Builder:
    """Converts nodes to values, and collects the lines of keys and items."""

    def __init__(self, yaml: YAML) -> None:
        self.lines: dict[Location, int] = {}
        self._yaml = yaml
        self._above: list[Node] = []  # the ancestors of the present node
        self._count = 0

    def build(self, node: Node, location: Location) -> Any:
        self._enter(node, location)
        if isinstance(node, ScalarNode):
            value = self._scalar(node, location)
        elif isinstance(node, MappingNode):
            value = self._mapping(node, location)
        else:
            self._check_tag(node, "seq", location)
            value = [self._child(item, item, (*location, i)) for i, item in enumerate(node.value)]
        self._above.pop()
        return value

    def _child(self, marked: Node, node: Node, location: Location) -> Any:
        self.lines[location] = _line(marked)
        return self.build(node, location)

    def _mapping(self, node: MappingNode, location: Location) -> dict[str, object]:
        return {
            key: self._child(key_node, value_node, (*location, key))
            for key, (key_node, value_node) in self._pairs(node, location).items()
        }

    def _pairs(self, node: MappingNode, location: Location) -> dict[str, tuple[Node, Node]]:
        """The keys of a mapping: those merged by ``<<``, and its own, which take precedence."""
        self._check_tag(node, "map", location)
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE and isinstance(key_node, ScalarNode):
                several = isinstance(value_node, SequenceNode)
                for source in value_node.value if several else [value_node]:
                    merged = self._merged(source, location) | merged
                continue
            key = self._key(key_node)
            if key in own:
                raise YamlTextError(
                    _line(key_node), f"not valid YAML: found duplicate key {shortened(key)}"
                )
            own[key] = (key_node, value_node)
        return merged | own

    def _merged(self, source: Node, location: Location) -> dict[str, tuple[Node, Node]]:
        if not isinstance(source, MappingNode):
            raise YamlTextError(
                _line(source), "not valid YAML: << wants a mapping, or a list of mappings"
            )
        self._enter(source, location)
        pairs = self._pairs(source, location)
        self._above.pop()
        return pairs

    def _key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise YamlTextError(_line(node), "not valid YAML: a key must be text, not a collection")
        if node.tag not in _PLAIN | _TEXT:
            raise YamlTextError(
                _line(node), f"{_tag(node)} is not allowed for a key; allowed: text"
            )
        return str(node.value)

    def _scalar(self, node: ScalarNode, location: Location) -> Any:
        if node.tag in _TEXT or (node.tag == _MERGE and node.value == "<<"):
            return str(node.value)
        if node.tag not in _PLAIN:
            raise self._bad_tag(node, location)
        try:
            value = self._yaml.constructor.construct_object(node)
            if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
                raise OverflowError
        except (ValueError, KeyError, IndexError, OverflowError, YAMLError):
            raise YamlTextError(
                _line(node),
                f"{_dotted(location)}{shortened(node.value)} is not allowed; allowed: "
                f"{_ALLOWED.get(str(node.tag).removeprefix(_TAG), 'text')}",
            ) from None
        return value

    def _check_tag(self, node: Node, kind: str, location: Location) -> None:
        if node.tag != f"{_TAG}{kind}":
            raise self._bad_tag(node, location)

    def _bad_tag(self, node: Node, location: Location) -> YamlTextError:
        return YamlTextError(
            _line(node),
            f"{_dotted(location)}the tag {_tag(node)} is not allowed; allowed: values without tags",
        )

    def _enter(self, node: Node, location: Location) -> None:
        if any(node is above for above in self._above):
            line = self.lines.get(location, _line(node))
            raise YamlTextError(
                line, f"{_dotted(location)}*{node.anchor} is not allowed, as it lies in itself"
            )
        self._above.append(node)
        self._count += 1
        if self._count > _MOST_VALUES:
            raise YamlTextError(
                _line(node), f"more than {_MOST_VALUES:,} values, aliases counted as often as used"
            )


_ALLOWED = {
    "bool": "true or false",
    "int": f"whole numbers up to {LARGEST_INTEGER}",
    "float": "numbers",
}


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _tag(node: Node) -> str:
    tag = str(node.tag)
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


def _dotted(location: Location) -> str:
    return f"{'.'.join(map(str, location))} = " if location else ""
