"""The JSON schema of sweep files; editors use it to complete and check them.

``python -m sweeps.planning.json_schema`` regenerates the file; a test compares both.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from pydantic import BaseModel

from sweeps.search.samplers import SAMPLERS
from sweeps.search.stopping import STOPPERS
from sweeps.sweep_file.loading import SCHEMA
from sweeps.sweep_file.schema import SweepFile
from sweeps.sweep_file.sections import data, losses, resources, search, training
from sweeps.sweep_file.sections.training import TrainingSection
from trainables.contract.config import TrainingConfig

_ADDRESS = "http://json-schema.org/draft-07/schema#"  # supported by all editors


def json_schema() -> dict[str, object]:
    """The schema of :class:`SweepFile`, with the known names."""
    schema = SweepFile.model_json_schema()
    definitions = schema["$defs"]
    names = _names()
    for definition, known in names.items():
        definitions[definition]["properties"]["name"] |= _one_of(known)
    of_search = definitions["SearchSection"]["properties"]
    of_search["sampler"]["enum"] = sorted(SAMPLERS)
    definitions["SchedulerSection"]["properties"]["name"]["enum"] = sorted(STOPPERS)
    several = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    for key in definitions["TrainingSection"]["properties"].values():
        key.pop("default", None)  # the default depends on the model
    of_search["objective"] = {"anyOf": [{"type": "string"}, several], "default": "val_ece"}
    of_search["learn_from"] = {"anyOf": [{"type": "string"}, of_search["learn_from"]]}
    short = {f"#/$defs/{name}": _one_of(known) for name, known in names.items()}
    short["#/$defs/ConstraintSection"] = {"anyOf": [{"type": "number"}]}
    found: dict[str, Any] = _with_short_forms(schema, short)
    _describe(found, SweepFile)
    for kind in sections():
        _describe(found["$defs"][kind.__name__], kind)
    return {"$schema": _ADDRESS, "title": "A calsweep sweep file", **found}


def sections() -> tuple[type[BaseModel], ...]:
    """The types of the sections, each from its own module."""
    return tuple(
        kind
        for module in (data, losses, resources, search, training)
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, BaseModel)
        and kind.__module__ == module.__name__
    )


def _describe(definition: dict[str, Any], kind: type[BaseModel]) -> None:
    """Adds the docstrings of a section and its keys as descriptions."""
    summary, keys = _documented(kind)
    if kind is TrainingSection:
        keys |= _documented(TrainingConfig)[1]
    definition["description"] = summary
    for key, text in keys.items():
        definition["properties"][key]["description"] = text


def _documented(kind: type) -> tuple[str, dict[str, str]]:
    """The text of a docstring before ``Attributes:``, and of each attribute."""
    summary, _, attributes = (inspect.getdoc(kind) or "").partition("\n\nAttributes:\n")
    entries = re.split(r"^    (?=\w+:)", attributes, flags=re.MULTILINE)[1:]
    return summary, {
        key: " ".join(text.split()) for key, _, text in (entry.partition(":") for entry in entries)
    }


def _names() -> dict[str, tuple[str, ...]]:
    """Sections that may be written as a name alone, with their known names."""
    from trainables.data import available_datasets
    from trainables.losses import available_losses
    from trainables.models import available_models

    return {
        "DatasetSection": available_datasets(),
        "ModelSection": available_models(),
        "TrainableSection": (),
        "LossSection": available_losses(),
        "EvaluationSetSection": (),
    }


def _one_of(known: tuple[str, ...]) -> dict[str, object]:
    """A name: a known one, which editors suggest, or a dotted path."""
    return {"anyOf": [*([{"enum": list(known)}] if known else []), {"type": "string"}]}


def _with_short_forms(tree: Any, short: dict[str, dict[str, Any]]) -> Any:
    if isinstance(tree, list):
        return [_with_short_forms(item, short) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$ref") in short:
        return {"anyOf": [*short[tree["$ref"]]["anyOf"], {"$ref": tree["$ref"]}]}
    return {key: _with_short_forms(item, short) for key, item in tree.items()}


def schema_text() -> str:
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
