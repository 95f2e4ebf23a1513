from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest
from rich.console import Console
from rich.table import Table

from sweeps.terminal.catalogue import datasets_table, models_table
from trainables import components


@pytest.fixture
def broken_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        components, "entry_points", lambda group: [EntryPoint("broken", "no_such:f", group)]
    )
    components._installed.cache_clear()
    yield
    components._installed.cache_clear()


@pytest.mark.usefixtures("broken_package")
@pytest.mark.parametrize(
    ("table", "ours"), [(datasets_table, "digits"), (models_table, "small_cnn")]
)
def test_a_broken_package_does_not_hide_the_others(table: Callable[[], Table], ours: str) -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(table())
    assert "cannot be imported: No module named 'no_such'" in shown.get()
    assert ours in shown.get()
