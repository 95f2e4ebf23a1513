"""The lists of available components."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest
from rich.table import Table

from sweeps.sweep_file.loading import recipes
from sweeps.terminal.catalogue import (
    datasets_table,
    losses_markdown,
    losses_rows,
    models_table,
    recipes_table,
)
from tests.builders import shown
from trainables.data import available_datasets
from trainables.losses import available_losses
from trainables.models import available_models
from trainables.plugins import components


def test_every_component_is_listed() -> None:
    rows = {row["loss"]: row for row in losses_rows()}
    assert tuple(rows) == available_losses()
    assert all(row["formula"] and row["source"] for row in rows.values())
    assert rows["focal"]["hyperparameters"] == "gamma 3"
    assert rows["focal"]["search"] == "gamma 0 … 10"
    assert rows["brier"]["search"] == "–"
    lines = losses_markdown().splitlines()
    assert len(lines) == 2 + len(rows)
    assert {line.replace("\\|", "").count("|") for line in lines} == {6}
    for table, names in (
        (datasets_table(), available_datasets()),
        (models_table(), available_models()),
    ):
        text = shown(table, width=200)
        assert all(name in text for name in names)
        assert "package.module:function" in text


@pytest.fixture
def broken_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        components, "entry_points", lambda group: [EntryPoint("broken", "no_such:f", group)]
    )
    components.installed.cache_clear()
    yield
    components.installed.cache_clear()


@pytest.mark.usefixtures("broken_package")
@pytest.mark.parametrize(
    ("table", "ours"), [(datasets_table, "digits"), (models_table, "small_cnn")]
)
def test_a_broken_package_does_not_hide_the_others(table: Callable[[], Table], ours: str) -> None:
    text = shown(table(), width=200)
    assert "cannot be imported: No module named 'no_such'" in text
    assert ours in text


def test_recipes_are_listed_with_their_sources() -> None:
    text = shown(recipes_table(), width=200)
    assert all(name in text for name in recipes())
    assert "Tao et al. 2023 (DFL), section 5.1" in text
