"""Finds named components (losses, data loaders, model builders) and checks their options.

The options of a component are the keyword arguments of its function: names, defaults, types and
ranges are defined only in the signature.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from trainables.plugins.arguments import Range, describe_error, did_you_mean
from trainables.plugins.saved_objects import is_kept, load_kept


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()
"""Marks an option without a default."""


@dataclass(frozen=True)
class Catalogue:
    """The components of one kind: built-in, of installed packages, or custom ones by dotted path.

    Installed packages register components with entry points in ``group``, such as ``my_name =
    "my_package.my_module:thing"``. They cannot replace built-in components, which ``ours`` lists
    with their dotted paths. ``kind``, ``form`` (of a custom object) and ``others`` (further allowed
    names) are for messages.
    """

    kind: str
    group: str
    ours: Mapping[str, str]
    form: str = "function"
    others: str | None = None

    def names(self) -> tuple[str, ...]:
        """The names that :meth:`find` accepts besides dotted paths, sorted."""
        return tuple(sorted(self._paths()))

    def find(self, name: str) -> Any:
        """Imports a component by name or ``package.module:thing``, or loads a saved object.

        Raises:
            ValueError: The name is unknown, the path does not exist, or the object is not callable.
        """
        paths = self._paths()
        if name not in paths and ":" not in name:
            known = [*sorted(paths), *([self.others] if self.others else [])]
            raise ValueError(
                f"unknown {self.kind} {name!r}{did_you_mean(name, paths)}; available: "
                f"{', '.join(known)}, or your own as package.module:{self.form}"
            )
        try:
            found = load_kept(name) if is_kept(name) else resolve_name(paths.get(name, name))
        except Exception as error:  # importing a module may raise anything
            raise ValueError(
                f"{self.kind} {name!r} cannot be imported: {describe_error(error)}"
            ) from error
        if not callable(found):
            raise ValueError(f"{self.kind} {name!r} is a {type(found).__name__}, not a {self.form}")
        return found

    def _paths(self) -> Mapping[str, str]:
        return {**installed(self.group), **self.ours}


@cache
def installed(group: str) -> dict[str, str]:
    """What installed packages register in a group of entry points: values by name."""
    return {point.name: point.value for point in entry_points(group=group)}


def options_of(function: Callable[..., Any], reserved: Collection[str]) -> dict[str, object]:
    """The default of each option except ``reserved``, or :data:`REQUIRED`, in their order."""
    return {
        name: REQUIRED if parameter.default is parameter.empty else parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in reserved
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def check_options(
    what: str, function: Callable[..., Any], options: Mapping[str, Any], reserved: Collection[str]
) -> None:
    """Checks names, types and ranges of options against a component's signature.

    ``what`` names the component in messages. The caller supplies the arguments in ``reserved``,
    which the component must accept by keyword.

    Raises:
        ValueError: An option is wrong; one message lists all errors.
    """
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    known = options_of(function, reserved)
    hints = type_hints(function)
    faults = []
    if not takes_any:
        faults += [f"it does not take {name!r}" for name in reserved if name not in parameters]
        faults += [
            f"unknown option {name!r}{did_you_mean(name, known)}"
            for name in options
            if name not in known
        ]
    faults += [
        f"option {name!r} is required"
        for name, default in known.items()
        if default is REQUIRED and name not in options
    ]
    faults += [
        f"{name}={value!r}: expected {_describe(hints[name])}"
        for name, value in options.items()
        if name in known and name in hints and not _accepts(hints[name], value)
    ]
    if faults:
        listed = ", ".join(f"{name} ({default!r})" for name, default in known.items()) or "none"
        raise ValueError(f"{what}: {'; '.join(faults)}. Its options (and defaults): {listed}")


def type_hints(function: Callable[..., Any]) -> dict[str, object]:
    """The type hints of a function; empty if one of them cannot be resolved."""
    called = function.__init__ if inspect.isclass(function) else getattr(function, "func", function)
    try:
        return get_type_hints(called, include_extras=True)
    except (NameError, TypeError):
        # A user's function may have annotations that are imported only for type checkers.
        return {}


def _accepts(hint: Any, value: object) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        ranges = [mark for mark in arguments[1:] if isinstance(mark, Range)]
        return _accepts(arguments[0], value) and all(value in allowed for allowed in ranges)  # type: ignore[operator]
    if origin in (Union, UnionType):
        return any(_accepts(argument, value) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if hint in (int, float):
        number = (int,) if hint is int else (int, float)
        return isinstance(value, number) and not isinstance(value, bool)
    target = origin or hint
    if target is tuple:
        return isinstance(value, (tuple, list))  # configuration files have only lists
    return not isinstance(target, type) or isinstance(value, target)


def _describe(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        ranges = [str(mark) for mark in arguments[1:] if isinstance(mark, Range)]
        return " ".join([_describe(arguments[0]), *ranges])
    if origin in (Union, UnionType):
        return " or ".join(_describe(argument) for argument in arguments)
    if origin is Literal:
        return " or ".join(repr(argument) for argument in arguments)
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    if hint is NoneType:
        return "nothing (null)"
    return names.get(hint, getattr(origin or hint, "__name__", str(hint)))
