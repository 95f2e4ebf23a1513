"""The JSON schema accepts the same sweep files as the loader."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from sweeps.errors import UserError
from sweeps.jobs.shipping import stage
from sweeps.planning.json_schema import json_schema, schema_text, sections
from sweeps.sweep_file.loading import (
    FIRST_LINE,
    READY_MADE,
    SCHEMA,
    dump_sweep,
    load_sweep,
    parse_sweep,
)
from tests.builders import make_sweep
from tests.harness import tracked

FILES = sorted(READY_MADE.rglob("*.yaml"))
VALIDATOR = Draft7Validator(json_schema())


def faults(tree: Any) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(tree)]


def test_the_file_is_up_to_date() -> None:
    assert SCHEMA.read_text() == schema_text(), "python -m sweeps.planning.json_schema"
    Draft7Validator.check_schema(json.loads(SCHEMA.read_text()))


def test_every_section_and_key_is_described() -> None:
    schema = json_schema()
    assert {kind.__name__ for kind in sections()} == set(schema["$defs"])
    for definition in (schema, *schema["$defs"].values()):
        for part in (definition, *definition["properties"].values()):
            assert len(part["description"]) > 10


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_that_we_ship_fits_and_names_it(file: Path) -> None:
    text = file.read_text()
    assert faults(YAML(typ="safe").load(text)) == []
    name = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (file.parent / name).resolve() == SCHEMA.resolve()
    assert faults(YAML(typ="safe").load(dump_sweep(load_sweep(str(file))))) == []


def test_the_first_line_leads_to_it() -> None:
    uri = FIRST_LINE.strip().partition("$schema=")[2]
    assert Path(unquote(urlsplit(uri).path)).read_text() == SCHEMA.read_text()


def test_every_file_that_we_write_fits_and_names_it(tmp_path: Path) -> None:
    sweep, records = tracked.make_sweep("written"), tracked.make_records()
    store = tracked.make_store(tmp_path / "store", sweep, records)
    stage(tmp_path, tmp_path / "job", sweep)
    (tmp_path / "third.yaml").write_text(
        tracked.ending_of(records, sweep, store).files()["best.yaml"]
    )
    written = sorted(tmp_path.rglob("*.yaml"))
    ours = [path for path in written if "sweeps/sweep_file" not in str(path)]  # without code
    assert [path.name for path in ours] == ["calsweep-sweep.yaml", "sweep.yaml", "third.yaml"]
    for path in ours:
        assert path.read_text().startswith(FIRST_LINE)
        assert faults(YAML(typ="safe").load(path.read_text())) == []
        load_sweep(str(path))


GOOD = {"name": "a", "dataset": "digits", "losses": ["focal"]}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"losses": ["focal", {"name": "mbls", "space": {"margin": {"low": 1, "high": 5}}}]},
        {"losses": [{"name": "my.own:Loss", "space": {"kind": {"choices": ["a", "b"]}}}]},
        {"dataset": {"name": "csv", "train": "a.csv", "title": "t"}, "model": "my.module:net"},
        {"search": {"learn_from": "first"}},
        {"search": {"learn_from": ["first", "second"], "max_hours": None}},
        {"search": {"constraints": {"val_nll": 0.3, "val_auroc": {"at_least": 0.9}}}},
        {"search": {"objective": ["val_ece", "val_error"]}},
        {"scaling": {"gpus_per_worker": "auto"}},
        {"scaling": {"gpus_per_worker": 0.25}},
        {"encoder": {"loss": "supcon", "training": {"epochs": 3}}},
        {"evaluation": {"ood": ["svhn"], "shift": [{"name": "cifar10_c", "root": "x"}]}},
        {"training": {"milestones": [0.5], "precision": "float32"}},
    ],
)
def test_what_the_loader_takes_fits(change: dict[str, Any]) -> None:
    parse_sweep({**GOOD, **change})
    assert faults({**GOOD, **change}) == []


@pytest.mark.parametrize(
    "change",
    [
        {"losses": []},
        {"losses": [{"nme": "focal"}]},
        {"losses": [3]},
        {"nmae": "a"},
        {"name": "no spaces"},
        {"name": None},
        {"dataset": None},
        {"training": {"epoch": 3}},
        {"training": {"epochs": 0}},
        {"training": {"epochs": "many"}},
        {"training": {"optimizer": "sdg"}},
        {"training": {"milestones": [2.0]}},
        {"search": {"trials": 2.5}},
        {"search": {"guard": 2}},
        {"search": {"constraints": {"val_nll": {"more": 0.3}}}},
        {"scaling": {"gpus_per_worker": "some"}},
        {"scaling": {"num_workers": -1}},
        {"selection": 3},
        {"tracking": {"uri": 5}},
    ],
)
def test_what_the_loader_refuses_does_not_fit(change: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        parse_sweep({**GOOD, **change})
    assert faults({**GOOD, **change})


def test_a_sweep_from_memory_fits_too() -> None:
    assert faults(YAML(typ="safe").load(dump_sweep(make_sweep()))) == []
