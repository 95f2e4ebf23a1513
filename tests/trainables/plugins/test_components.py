import inspect
from collections.abc import Iterator
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.plugins import components
from trainables.plugins.arguments import Range, did_you_mean
from trainables.plugins.components import REQUIRED, Catalogue, check_options, options_of


def component(
    *,
    seed: int,
    root: str,
    fraction: Annotated[float, Range(0, 1, open_high=True)] = 0.5,
    width: Annotated[int, Range(1)] = 4,
    count: int | None = None,
    kind: Literal["a", "b"] = "a",
    shout: bool = False,
    size: tuple[int, int] = (1, 1),
) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"fraction": 0},
        {"fraction": 0.999},
        {"width": 1},
        {"count": None},
        {"count": -3},
        {"kind": "b"},
        {"shout": True},
        {"size": [2, 3]},
    ],
    ids=str,
)
def test_check_accepts(options: dict[str, Any]) -> None:
    check_options("component", component, {"root": "x", **options}, ("seed",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"root": 3}, r"root=3: expected text"),
        ({"fraction": 1.0}, r"fraction=1.0: expected a number in \[0, 1\)"),
        ({"fraction": float("nan")}, r"fraction=nan: expected a number"),
        ({"fraction": True}, r"fraction=True: expected a number"),
        ({"fraction": "0.5"}, r"fraction='0.5': expected a number"),
        ({"width": 0}, r"width=0: expected an integer of at least 1"),
        ({"width": 2.0}, r"width=2.0: expected an integer"),
        ({"count": "many"}, r"count='many': expected an integer or nothing \(null\)"),
        ({"kind": "c"}, r"kind='c': expected 'a' or 'b'"),
        ({"shout": 1}, r"shout=1: expected true or false"),
        ({"wdith": 3}, r"unknown option 'wdith' \(did you mean 'width'\?\)"),
        ({"seed": 3}, r"unknown option 'seed'"),
    ],
)
def test_check_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_options("component", component, {"root": "x", **options}, ("seed",))


def test_check_reports_everything_at_once() -> None:
    with pytest.raises(ValueError, match=r"^model 'm'") as caught:
        check_options("model 'm'", component, {"width": -1, "colour": "red"}, ("seed",))
    message = str(caught.value)
    for part in ("'root' is required", "width=-1", "'colour'", "fraction (0.5)", "root (required)"):
        assert part in message


def test_a_component_has_to_take_what_the_caller_supplies() -> None:
    with pytest.raises(ValueError, match="does not take 'seed'"):
        check_options("dataset", lambda root: None, {"root": "x"}, ("seed",))


def test_a_component_with_keyword_arguments_takes_anything() -> None:
    check_options("dataset", lambda **options: None, {"anything": 1}, ("seed",))


def test_hints_that_cannot_be_resolved_are_not_checked() -> None:
    def loader(*, size: "OnlyForTypeCheckers") -> None:  # type: ignore[name-defined]  # noqa: F821
        ...

    check_options("dataset", loader, {"size": object()}, ())


def test_a_partial_component_is_checked_like_the_whole() -> None:
    bound = partial(named_component, "given")
    assert options_of(bound, ()) == {"width": 1}
    with pytest.raises(ValueError, match="width=0"):
        check_options("model", bound, {"width": 0}, ())


def named_component(name: str, *, width: Annotated[int, Range(1)] = 1) -> None: ...


def test_options_are_read_from_the_signature() -> None:
    options = options_of(component, ("seed",))
    assert list(options) == list(inspect.signature(component).parameters)[1:]
    assert options["root"] is REQUIRED
    assert options["fraction"] == 0.5


@given(st.floats(), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_range_holds_what_lies_between(value: float, low: float, high: float) -> None:
    assert (value in Range(low, high)) == (low <= value <= high)
    assert (value in Range(low, high, open_low=True, open_high=True)) == (low < value < high)


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (Range(1), "of at least 1"),
        (Range(0, open_low=True), "above 0"),
        (Range(0, 1), "in [0, 1]"),
        (Range(0, 1, open_low=True, open_high=True), "in (0, 1)"),
    ],
)
def test_range_reads_well(allowed: Range, text: str) -> None:
    assert str(allowed) == text


@pytest.mark.parametrize(("name", "hint"), [("digit", " (did you mean 'digits'?)"), ("zzz", "")])
def test_did_you_mean(name: str, hint: str) -> None:
    assert did_you_mean(name, ("digits", "parquet")) == hint


THINGS = Catalogue("thing", "calsweep.things", {"path": "pathlib:Path"})


def test_names_and_dotted_paths_are_found() -> None:
    assert THINGS.names() == ("path",)
    assert THINGS.find("path") is Path
    assert THINGS.find("inspect:signature") is inspect.signature


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pth", r"unknown thing 'pth' \(did you mean 'path'\?\); available: path, or your own as"),
        ("no_such_module:f", "thing 'no_such_module:f' cannot be imported: No module named"),
        ("inspect:no_such", "thing 'inspect:no_such' cannot be imported: .* no attribute"),
        (":f", "thing ':f' cannot be imported"),
        ("inspect:", "thing 'inspect:' is a module, not a function"),
        ("inspect:CO_VARARGS", "thing 'inspect:CO_VARARGS' is a int, not a function"),
    ],
)
def test_what_is_not_there_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        THINGS.find(name)


def test_the_message_names_what_else_there_is() -> None:
    things = Catalogue("thing", "calsweep.things", {"path": "pathlib:Path"}, others="timm/<any>")
    with pytest.raises(ValueError, match="available: path, timm/<any>, or your own"):
        things.find("x")


def test_a_faulty_module_of_the_user_is_named_with_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_loader.py").write_text("import not_installed_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"'faulty_loader:load' .* 'not_installed_here'"):
        THINGS.find("faulty_loader:load")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with a good component, a broken one, and one with a built-in name."""

    def entry_points(group: str) -> list[EntryPoint]:
        offered = {"sign": "inspect:signature", "broken": "no_such:f", "path": "inspect:isclass"}
        return [
            EntryPoint(name, value, group)
            for name, value in offered.items()
            if group == "calsweep.things"
        ]

    monkeypatch.setattr(components, "entry_points", entry_points)
    components.installed.cache_clear()
    yield
    components.installed.cache_clear()


@pytest.mark.usefixtures("installed")
def test_installed_packages_add_names_but_replace_none() -> None:
    assert THINGS.names() == ("broken", "path", "sign")
    assert THINGS.find("sign") is inspect.signature
    assert THINGS.find("path") is Path
    with pytest.raises(ValueError, match="thing 'broken' cannot be imported: No module named"):
        THINGS.find("broken")


def test_losses_datasets_and_models_have_a_group_of_entry_points_each() -> None:
    from trainables import data, losses, models

    groups = [package.CATALOGUE.group for package in (data, models, losses.registry)]
    assert groups == ["calsweep.datasets", "calsweep.models", "calsweep.losses"]
